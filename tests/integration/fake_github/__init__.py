"""A GitHub on loopback that GitHub itself would recognise: stateful, and held to GitHub's own OpenAPI description.

    with FakeGitHub() as fake:
        base = fake.state.commit(branch="main")
        run = fake.state.run(base)                           # a green run of a push to main
        fake.state.artifact(run, zip_bytes)                  # named agent-eval-results
        pull = fake.state.pull(7)                            # head_sha, head_ref, head_repository="fork/shop" ...
        fake.faults.append(secondary_limit(method="POST"))   # what goes wrong
        ...                                                  # talk to fake.api_url with fake.token
        assert [one.method for one in fake.requests] == [...]
        assert fake.state.comments_of(7)[0].body == ...

* Leaving the block fails the test if any request or answer violated the description (`fake.violations`), if the token
  was sent to the store, or if the server itself broke.
* `fake.token` is an installation's: its comments are by `github-actions[bot]`, GET /user is 403 for it. Other tokens
  are in `fake.tokens` (token -> login); `fake.read_only = True` lets every write fail as on a fork.
* `state.take_git(directory)` copies the commits, branches and files of a real repository.
* `api_url` begins with http://127.0.0.1:PORT, so that processes started by a test can use it as GITHUB_API_URL;
  `address="0.0.0.0"` for containers (and `name`, by which they reach it), `base_path="/api/v3"` for a GHES.
* Artifacts are served by another server (another origin, as GitHub's store is), after a 302; an expired one is 410.
"""

from fake_github.faults import Fault, forbidden, primary_limit, secondary_limit
from fake_github.server import FakeGitHub, Request
from fake_github.state import Artifact, Comment, Pull, Run, State

__all__ = [
    "Artifact",
    "Comment",
    "FakeGitHub",
    "Fault",
    "Pull",
    "Request",
    "Run",
    "State",
    "forbidden",
    "primary_limit",
    "secondary_limit",
]
