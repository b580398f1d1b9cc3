"""How many bytes of an image are downloaded: the sum of its compressed layers, and the ratio to another image.

    docker buildx build . --output type=oci,dest=new.tar,compression=zstd,compression-level=22,force-compression=true
    docker save --output old.tar OLD
    python benchmarks/image_size.py new.tar [old.tar]

An archive is an OCI image layout, whose manifest has the sizes that a registry serves (of the first image in it), or
what `docker save` writes. Layers that are not compressed are counted as `gzip -6` leaves them.
"""

from __future__ import annotations

import json
import sys
import tarfile
import zlib
from pathlib import Path
from typing import IO, Any

COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How gzip and zstd begin."""


def opened(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    content = archive.extractfile(name)
    assert content is not None, f"{name} is no file"
    return content


def layers(archive: tarfile.TarFile) -> list[str]:
    """The names of an image's layers in its archive, base first."""

    def blob(described: dict[str, Any]) -> str:
        return f"blobs/{described['digest']}".replace(":", "/")

    if "index.json" not in archive.getnames():
        return list(json.load(opened(archive, "manifest.json"))[0]["Layers"])
    document = json.load(opened(archive, "index.json"))
    while "layers" not in document:  # Behind the index of an archive comes the one of its platforms and attestations.
        document = json.load(opened(archive, blob(document["manifests"][0])))
    return [blob(layer) for layer in document["layers"]]


def size(content: IO[bytes]) -> int:
    """Bytes of a layer, compressed."""
    begin = content.read(4)
    content.seek(0)
    if begin.startswith(COMPRESSED):
        return content.seek(0, 2)
    packer = zlib.compressobj(6, wbits=31)
    return sum(len(packer.compress(part)) for part in iter(lambda: content.read(1 << 20), b"")) + len(packer.flush())


def main() -> None:
    totals = []
    for path in map(Path, sys.argv[1:]):
        with tarfile.open(path) as archive:
            sizes = [size(opened(archive, name)) for name in layers(archive)]
        totals.append(sum(sizes))
        print(f"{path}: {totals[-1]:,} bytes, {totals[-1] - sizes[0]:,} without the first layer; {sizes}")
    if len(totals) == 2:
        print(f"ratio: {totals[0] / totals[1]:.3f}")


if __name__ == "__main__":
    main()
