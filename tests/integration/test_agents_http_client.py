"""The client of remote agents against real sockets: where headers go, what is connected to, how answers break."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
from pathlib import Path

import pytest
from loopback import Answer, Handler, Request, loopback

from agent_eval.agents.http import HttpClient, HttpFailure, TooLarge, parse_url, stream_with_retries
from agent_eval.core.limiter import Limiter
from agent_eval.core.masking import MASK, Masker

SECRET = {"Authorization": "Bearer s3cret-token"}


async def echo(request: Request, answer: Answer) -> None:
    await answer.json({"headers": request.headers})


async def test_client__headers_go_to_the_agents_origin_only_and_are_masked_in_answers() -> None:
    async with loopback(echo) as own, loopback(echo) as other:
        client = HttpClient(parse_url(own.url), headers=SECRET, masker=Masker(["s3cret-token"]))
        reply = await client.request("GET", f"{own.url}/a")
        await client.request("POST", f"{other.url}/a", body={"x": 1})
        await client.request("GET", own.url.replace("127.0.0.1", "localhost"))
        await client.close()
    assert own.requests[0].headers["authorization"] == "Bearer s3cret-token"
    assert reply.json()["headers"]["authorization"] == f"Bearer {MASK}" and "s3cret" not in reply.text
    assert "authorization" not in other.requests[0].headers and other.requests[0].json == {"x": 1}
    assert own.requests[1].headers["host"].startswith("localhost:") and "authorization" not in own.requests[1].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_client__redirects_are_not_followed_and_cookies_not_kept(status: int) -> None:
    async with loopback(echo) as other:

        async def redirect(request: Request, answer: Answer) -> None:
            await answer.send(status, b"", location=f"{other.url}/stolen", set_cookie="a=b")

        async with loopback(redirect) as own:
            client = HttpClient(parse_url(own.url), headers=SECRET)
            assert (await client.request("GET", own.url)).status == status
            await client.request("GET", own.url)
            await client.close()
    assert not other.requests and "cookie" not in own.requests[1].headers


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[fe80::1]"]
)
@pytest.mark.parametrize("proxied", [False, True])
async def test_client__never_connects_to_metadata_addresses(host: str, proxied: bool) -> None:
    async with loopback(echo) as proxy:
        client = HttpClient(parse_url(f"http://{host}"), environ={"HTTP_PROXY": proxy.url} if proxied else {})
        with pytest.raises(HttpFailure) as caught:
            await client.request("GET", f"http://{host}/latest")
        await client.close()
    assert caught.value.reason == "address" and not proxy.requests


async def test_client__a_proxy_that_fails_is_named_with_its_variable() -> None:
    async def refuses(request: Request, answer: Answer) -> None:
        await answer.send(502 if "down" in request.target else 407, b"")

    async with loopback(refuses) as proxy:
        refused, secret = "http://127.0.0.1:1", "http://me:secret@127.0.0.1:1"
        tried = [
            ("HTTP_PROXY", secret, "http://agent.invalid", "proxy-down", f"{refused} (HTTP_PROXY) can't be"),
            ("all_proxy", "127.0.0.1:1", "https://agent.invalid", "proxy-down", f"{refused} (all_proxy)"),
            ("HTTPS_PROXY", proxy.url, "https://down.invalid", "proxy-down", "(HTTPS_PROXY) answered 502"),
            ("HTTPS_PROXY", proxy.url, "https://agent.invalid", "proxy", "(HTTPS_PROXY) answered 407"),
            ("HTTP_PROXY", "http://me:x/secret@a.invalid:1", "http://agent.invalid", "proxy", "http://a.invalid:1 (H"),
            ("HTTP_PROXY", "ftp://me:secret@a.invalid", "http://agent.invalid", "proxy", "its address is invalid"),
            ("HTTP_PROXY", "http://[::1", "http://agent.invalid", "proxy", "(HTTP_PROXY) can't be used: its address"),
            ("ALL_PROXY", "socks5://a.invalid", "http://agent.invalid", "proxy", "socks5://a.invalid (ALL_PROXY) can"),
        ]
        for variable, address, url, reason, message in tried:
            client = HttpClient(parse_url(url), environ={variable: address})
            with pytest.raises(HttpFailure) as caught:
                await client.request("GET", f"{url}/run")
            await client.close()
            assert caught.value.reason == reason and message in caught.value.message, caught.value.message
            assert "secret" not in caught.value.message


async def test_client__proxy_for_other_hosts_but_not_for_loopback() -> None:
    async with loopback(echo) as proxy, loopback(echo) as own:
        environ = {"http_proxy": proxy.url, "HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "direct.invalid"}
        client = HttpClient(parse_url("http://agent.invalid"), environ=environ, headers=SECRET)
        await client.request("GET", "http://agent.invalid/run")
        await client.request("GET", f"{own.url}/run")
        with pytest.raises(HttpFailure) as caught:
            await client.request("GET", "http://direct.invalid/")
        await client.close()
    assert [request.target for request in proxy.requests] == ["http://agent.invalid/run"]
    assert [request.target for request in own.requests] == ["/run"]
    assert caught.value.reason == "dns"


def certificate(directory: Path, host: str) -> tuple[Path, Path]:
    key, cert = directory / "key.pem", directory / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x -addext"
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), f"subjectAltName={host}", *files], check=True, capture_output=True, timeout=60)
    return key, cert


@pytest.mark.parametrize(
    ("name", "trusted", "works"),
    [("IP:127.0.0.1", True, True), ("IP:127.0.0.1", False, False), ("DNS:x.example", True, False)],
)
async def test_client__certificates_are_verified(tmp_path: Path, name: str, trusted: bool, works: bool) -> None:
    key, cert = certificate(tmp_path, name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient(parse_url(url), environ={"SSL_CERT_FILE": str(cert)} if trusted else {})
        if works:
            assert (await client.request("GET", url)).text == "OK"
        else:
            with pytest.raises(HttpFailure) as caught:
                await client.request("GET", url)
            assert caught.value.reason == "tls"
        await client.close()


async def streamed(handler: Handler) -> list[str]:
    async with loopback(handler) as own:
        client = HttpClient(parse_url(own.url), masker=Masker(["s3cret-token"]))
        try:
            async with client.stream("POST", own.url, body={}) as stream:
                assert stream.is_event_stream
                return [event.data async for event in stream.events()]
        finally:
            await client.close()


async def test_stream__byte_by_byte_and_gzip_and_masked() -> None:
    text = "data: Grüße s3cret-token\r\n\r\ndata: 2\n\n".encode()

    async def bytewise(request: Request, answer: Answer) -> None:
        await answer.head(content_type="Text/Event-Stream; charset=utf-8")
        for byte in text:
            await answer.raw(bytes([byte]))

    async def zipped(request: Request, answer: Answer) -> None:
        await answer.send(200, gzip.compress(text), content_type="text/event-stream", content_encoding="gzip")

    for handler in (bytewise, zipped):
        assert await streamed(handler) == [f"Grüße {MASK}", "2"]


async def test_stream__shorter_than_it_should_be_is_broken() -> None:
    async def short(request: Request, answer: Answer) -> None:
        await answer.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\ndata: 1\n\n")

    with pytest.raises(HttpFailure) as caught:
        await streamed(short)
    assert caught.value.reason == "broken"


async def test_stream__an_event_of_100_mb_is_refused() -> None:
    async def large(request: Request, answer: Answer) -> None:
        await answer.events("data: ")
        for _ in range(100):
            await answer.raw(b"x" * 1_000_000)

    with pytest.raises(TooLarge, match="64 MB"):
        await streamed(large)


async def test_stream__leaving_it_closes_the_connection() -> None:
    ended = asyncio.Event()

    async def endless(request: Request, answer: Answer) -> None:
        await answer.events("data: 1\n\n")
        try:
            while True:
                await answer.raw(b": still here\n\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with loopback(endless) as own:
        client = HttpClient(parse_url(own.url))
        async with client.stream("GET", own.url) as stream:
            async for _ in stream.events():
                break
        async with asyncio.timeout(10):
            await ended.wait()
        await client.close()


async def test_retries__until_the_server_has_capacity() -> None:
    statuses = iter([503, 429, 502, 200])
    limiter = Limiter(8)

    async def busy(request: Request, answer: Answer) -> None:
        await answer.send(next(statuses), b"ok", retry_after="0")

    async with loopback(busy) as own, limiter.slot() as place:
        client = HttpClient(parse_url(own.url))
        until = asyncio.get_running_loop().time() + 60
        sending = stream_with_retries(client, own.url, body=1, headers={}, until=until, place=place, limiter=limiter)
        async with sending as stream:
            assert (await stream.reply()).text == "ok"
        await client.close()
    assert len(own.requests) == 4 and limiter.size < 8
    assert [refused for _, refused in limiter._outcomes] == [True, True, False], "502 says nothing about capacity"
    assert (limiter.refusals, limiter.unanswered) == (2, 0)
