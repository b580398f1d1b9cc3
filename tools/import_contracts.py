"""Import contract for import-linter: modules with a leading underscore are private to their package."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """Fails for an import of `package._module` from outside `package`."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Checks all imports between modules of the root package."""
        violations = sorted(
            (importer, imported)
            for imported in graph.modules
            if (package := _owner(imported)) is not None
            for importer in graph.find_modules_that_directly_import(imported)
            if importer != package and not importer.startswith(f"{package}.")
        )
        return ContractCheck(kept=not violations, metadata={"violations": violations})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints one line per violation."""
        for importer, imported in check.metadata["violations"]:
            output.print_error(f"{importer} imports {imported}, which is private to {_owner(imported)}")


def _owner(module: str) -> str | None:
    """The package to which a private module belongs; None for a public one."""
    parts = module.split(".")
    for number, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            return ".".join(parts[:number])
    return None
