"""A release, rehearsed on a clone: what tools/release.py does, and what the workflow does around it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import release
from gate_runs import program
from ruamel.yaml import YAML

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# In parts, since a release renames what is written here too.
PRODUCT = "agent-eval-action"
PLACEHOLDER = f"org/{PRODUCT}"
NAME = f"Acme-Inc/{PRODUCT}"
IMAGE = f"ghcr.io/acme-inc/{PRODUCT}"
DIGEST = "sha256:" + "0123456789abcdef" * 4
WORKFLOW: dict[str, Any] = YAML(typ="safe").load(ROOT / ".github/workflows/release.yml")


def git(root: Path, *arguments: str) -> str:
    return release.git(root, "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with our files, ready for version 1.2.3."""
    listed = program("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z", code=None)
    if listed.returncode != 0:
        pytest.skip("this is no git work tree")
    root = tmp_path_factory.mktemp("release") / "original"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    program(sys.executable, ROOT / "tools/release.py", "version", "1.2.3", cwd=root)
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text("utf-8")
    changelog.write_text(text.replace("## Unreleased\n", "## Unreleased\n\n## 1.2.3\n", 1), "utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Prepare 1.2.3")
    return root


def cloned(original: Path, to: Path) -> Path:
    program("git", "clone", "--quiet", "--shared", original, to)
    return to


@pytest.fixture(scope="module")
def tagged(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone of what the release has tagged, as a user gets it."""
    folder = tmp_path_factory.mktemp("tagged")
    made = cloned(original, folder / "made")
    program(sys.executable, ROOT / "tools/release.py", "commit", "1.2.3", NAME, DIGEST, cwd=made, timeout=120)
    user = cloned(made, folder / "user")
    git(user, "checkout", "--quiet", "v1.2.3")
    return user


def test_release__tagged_tree_has_no_placeholder(tagged: Path) -> None:
    assert release.placeholders(tagged) == []
    assert release.repository(tagged) == NAME
    texts = release.texts(tagged)
    everything = "\n".join(texts.values())
    assert PLACEHOLDER not in everything
    owners = {owner.lower() for owner in re.findall(r"([\w.-]+)/agent-eval-action\b", everything)}
    assert owners - {"..", "ghcr.io", "acme", "src"} == {"acme-inc"}
    assert texts[".github/CODEOWNERS"].endswith("* @Acme-Inc/maintainers\n")
    for name in ("README.md", "docs/recipes.md"):
        assert f"{IMAGE}:1" in texts[name]
        assert f"uses: {NAME}@v1" in texts[name]


def test_release__schemas_are_at_their_own_address(tagged: Path) -> None:
    for name in ("results", "eval-set", "test-config", "tape"):
        url = f"https://raw.githubusercontent.com/{NAME}/v1/schemas/{name}.schema.json"
        assert f'"$id": "{url}"' in (tagged / f"schemas/{name}.schema.json").read_text("utf-8")
    code = (
        "from agent_eval_results.report.renderers.results_json import SCHEMA_ID\n"
        "from eval_schemas import SCHEMAS\n"
        "print(SCHEMA_ID, *(build()['$id'] for build in SCHEMAS.values()))"
    )
    environment = {"PYTHONPATH": ":".join(map(str, [*tagged.glob("src/*"), tagged / "tools"]))}
    done = program(sys.executable, "-c", code, env=environment)
    assert done.stdout.count(f"https://raw.githubusercontent.com/{NAME}/v1/schemas/") == len(done.stdout.split()) == 4


def test_release__the_action_names_the_gate_and_the_gate_its_image_immutably(original: Path, tagged: Path) -> None:
    release_commit, gate_commit, main = git(tagged, "rev-parse", "v1.2.3", "v1.2.3^", "v1.2.3~2").split()
    assert main == git(original, "rev-parse", "main")
    assert git(tagged, "rev-parse", "v1") == release_commit

    root: dict[str, Any] = YAML(typ="safe").load(tagged / "action.yml")
    used = [step["uses"] for step in root["runs"]["steps"] if "/gate@" in step.get("uses", "")]
    assert used == [f"{NAME}/gate@{gate_commit}"] * 2
    assert f"gate@{gate_commit} # v1.2.3\n" in (tagged / "action.yml").read_text("utf-8")
    others = [step["uses"] for step in root["runs"]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40}", other) for other in others), others

    gate = YAML(typ="safe").load(git(tagged, "show", f"{gate_commit}:gate/action.yml"))
    assert gate["runs"]["image"] == f"docker://{IMAGE}@{DIGEST}"


def test_release__changes_no_workflow_and_gives_the_same_commits_again(
    original: Path, tagged: Path, tmp_path: Path
) -> None:
    # The token of a workflow may not push a commit that changes one.
    assert git(tagged, "diff", "--name-only", "v1.2.3~2", "v1.2.3", "--", ".github/workflows") == ""
    assert "action.yml" in git(tagged, "diff", "--name-only", "v1.2.3~2", "v1.2.3").split()

    made = cloned(original, tmp_path / "made")
    commit = release.commit(made, "1.2.3", NAME, DIGEST)[1]
    assert commit == git(tagged, "rev-parse", "v1.2.3")
    text = release.notes(made, "1.2.3")
    assert f"- uses: {NAME}@{commit} # v1.2.3" in text, "the commit to pin"
    assert "### Added" in text and "## Unreleased" not in text


def test_release__tagged_tree_passes_the_linters(tagged: Path) -> None:
    programs = Path(sys.executable).parent
    for command in (
        ["check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml", "gate/action.yml"],
        ["actionlint", "-no-color"],
        ["zizmor", "--offline", "--quiet", "--no-progress", "."],
    ):
        environment = {"PATH": f"{programs}:/usr/bin:/bin"}
        program(programs / command[0], *command[1:], cwd=tagged, env=environment, timeout=120)
    assert "zizmor: ignore" not in (tagged / "action.yml").read_text("utf-8").partition("runs:")[2]


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("src/agent-eval-action/agent_eval/__init__.py", '__version__ = "1.2.4"\n', "has 1.2.4; run"),
        ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\nAll of it\n", "has no section `## 1.2.3`"),
        ("CHANGELOG.md", "# Changelog\n\n## 1.2.3\n\n## 1.2.2\n\nOld\n", "has no section `## 1.2.3`"),
        ("docs/new.md", f"uses: {release.repository(ROOT)}@v2\n", "docs/new.md names another major version than 1"),
        ("docs/new.md", f"uses: OWNER/{PRODUCT}@main\n", f"docs/new.md:1: uses: OWNER/{PRODUCT}@main"),
        ("docs/new.md", "for org/something\n", "docs/new.md:1: for org/something"),
        (
            "src/agent-eval-agents/pyproject.toml",
            'version = "1.2.3"\n  "agent-eval-scoring==1.2.2",\n',
            "has 1.2.2, 1.2.3; run",
        ),
        ("src/agent-eval-results/pyproject.toml", 'version = "1.2.4"\n', "has 1.2.4; run `release.py version 1.2.3`"),
        ("gate/action.yml", "runs: {using: docker}\n", "0 lines match"),
        ("action.yml", "runs: {using: composite}\n", "0 lines match"),
    ],
)
def test_release__is_refused(original: Path, tmp_path: Path, file: str, text: str, expected: str) -> None:
    made = cloned(original, tmp_path / "made")
    (made / file).write_text(text, "utf-8")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message=x")
    with pytest.raises(release.Refused, match=re.escape(expected)):
        release.commit(made, "1.2.3", NAME, DIGEST)
    assert git(made, "tag") == ""


def test_release__is_refused_with_changes_or_without_a_digest(original: Path, tmp_path: Path) -> None:
    made = cloned(original, tmp_path / "made")
    with pytest.raises(release.Refused, match="not the digest"):
        release.commit(made, "1.2.3", NAME, "latest")
    with pytest.raises(release.Refused, match="not the name of a repository"):
        release.commit(made, "1.2.3", "acme", DIGEST)
    (made / "README.md").write_text("x", "utf-8")
    with pytest.raises(release.Refused, match="not committed"):
        release.commit(made, "1.2.3", NAME, DIGEST)


def test_rename__again_and_from_a_name_within_another(original: Path, tmp_path: Path) -> None:
    made = cloned(original, tmp_path / "made")
    for name in (f"my-org/{PRODUCT}", PLACEHOLDER, NAME, NAME):
        release.rename(made, name)
        assert release.repository(made) == name
    assert f"name: {IMAGE}:1" in (made / "docs/recipes.md").read_text("utf-8")
    release.rename(made, release.repository(original))
    assert git(made, "status", "--porcelain") == "", "there and back is where it began"


def test_name__is_the_configured_one_everywhere() -> None:
    name = release.repository(ROOT)
    texts = release.texts(ROOT)
    owner = re.compile(r"(?:github(?:usercontent)?\.com|ghcr\.io|uses:) ?/?([\w.-]+/agent-eval-action)\b")
    matches = {match for file, text in texts.items() if not file.startswith("tests/") for match in owner.findall(text)}
    assert matches == {name}
    assert not [file for file in texts if file.startswith(release.NOT_RENAMED) and name in texts[file]]


def test_pins__are_digests_of_what_the_dockerfile_names() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    (base,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", text, re.MULTILINE)
    assert release.pin(ROOT, "python").startswith(base + "@sha256:")
    used = set(re.findall(r"release\.py pin ([\w/-]+)", (ROOT / ".github/workflows/release.yml").read_text("utf-8")))
    assert used == {"python", "moby/buildkit", "docker/buildkit-syft-scanner"}
    assert all(release.pin(ROOT, name) for name in used)
    with pytest.raises(release.Refused, match="does not pin `busybox`"):
        release.pin(ROOT, "busybox")


def before(job: str) -> set[str]:
    """All jobs that must have succeeded before this one begins."""
    needs = WORKFLOW["jobs"][job].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(before(item) for item in direct)) if direct else direct


def script(job: str) -> str:
    return "\n".join(str(step.get("run", step.get("uses"))) for step in WORKFLOW["jobs"][job]["steps"])


def test_workflow__nothing_has_a_version_s_name_before_it_was_started_and_attested() -> None:
    assert before("release") >= {"check", "image", "index", "start", "packages"}
    assert before("pypi") >= {"release"}
    for job in {*before("release"), "start"}:
        assert not re.search(r"git push|:\$VERSION|gh release create|uv\" publish", script(job)), job
    text = script("release")
    order = [
        text.index(part)
        for part in ("attest-build-provenance", "release.py commit", '--tag "$NAME:$VERSION"', "git push", "gh release")
    ]
    assert order == sorted(order)


def test_workflow__every_architecture_is_built_and_started_on_itself_by_a_stranger() -> None:
    jobs = WORKFLOW["jobs"]
    assert {item["arch"]: item["runner"] for item in jobs["image"]["strategy"]["matrix"]["include"]} == {
        "amd64": "ubuntu-24.04",
        "arm64": "ubuntu-24.04-arm",
    }
    assert set(jobs["start"]["strategy"]["matrix"]["runner"]) == {"ubuntu-24.04", "ubuntu-24.04-arm"}
    assert "login" not in script("start")
    assert jobs["start"]["permissions"] == {"contents": "read"}
    assert "qemu" not in str(jobs)


def test_workflow__waits_for_a_green_ci_of_this_commit() -> None:
    for name in re.findall(r"[\w-]+\.yml", script("check")):
        assert "push" in YAML(typ="safe").load(ROOT / ".github/workflows" / name)["on"]
    assert "ci.yml self-test.yml" in script("check")
    assert "status=success" in script("check")
    assert all("check" in before(job) for job in WORKFLOW["jobs"] if job != "check")
