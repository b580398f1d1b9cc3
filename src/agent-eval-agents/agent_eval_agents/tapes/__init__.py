"""Tapes: answers of tools and models kept beside the eval files, so that a run needs neither (docs/tools.md)."""

from agent_eval_agents.tape_rules import Miss, Mode, ToolPolicy, ToolRule, ToolRules, VolatileRule
from agent_eval_agents.tapes._files import (
    FOLDER,
    MAX_TAPE,
    SUFFIX,
    InvalidTape,
    fits,
    folder_of,
    read_tape,
    tape_in,
    tape_name,
    tape_path,
    tape_text,
    tapes_below,
    write_tape,
)
from agent_eval_agents.tapes._index import TapeIndex, by_hand
from agent_eval_agents.tapes._making import Taped, changing_arguments, tape_of
from agent_eval_agents.tapes._order import PATIENCE, Order
from agent_eval_agents.tapes._requests import Difference, Obstacle, Unanswerable, changed_request, contents_of
from agent_eval_agents.tapes._session import TapeSession
from agent_eval_agents.tapes._tape import (
    ABSENT,
    NOT_COMPARED,
    ModelExchange,
    RecordedCall,
    RecordedRun,
    Tape,
    ToolHashes,
    canonical,
    is_secret,
    masked,
)
