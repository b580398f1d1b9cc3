"""Recorded tools: answers of tools kept beside the eval files, so that a run needs no real tool (docs/tools.md)."""

from agent_eval.agents.tape_rules import Miss, Mode, ToolPolicy, ToolRule, ToolRules
from agent_eval.agents.tapes._files import (
    FOLDER,
    SUFFIX,
    InvalidTape,
    folder_of,
    read_tape,
    tape_name,
    tape_path,
    tape_text,
    tapes_below,
    write_tape,
)
from agent_eval.agents.tapes._session import (
    Obstacle,
    Taped,
    TapeIndex,
    TapeSession,
    Unanswerable,
    changing_arguments,
    tape_of,
)
from agent_eval.agents.tapes._tape import RecordedCall, Tape, ToolHashes, canonical, masked
