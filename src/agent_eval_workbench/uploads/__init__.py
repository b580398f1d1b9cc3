"""Sends exported documents to services."""

from agent_eval_workbench.uploads._client import Client, InvalidTarget, UploadError, checked_url
from agent_eval_workbench.uploads.cozeloop import (
    CozeLoopTarget,
    Uploaded,
    cozeloop_client,
    cozeloop_target,
    create_eval_set,
    upload_items,
)
from agent_eval_workbench.uploads.otlp import OtlpTarget, otlp_target, send_otlp

__all__ = [
    "Client",
    "CozeLoopTarget",
    "InvalidTarget",
    "OtlpTarget",
    "UploadError",
    "Uploaded",
    "checked_url",
    "cozeloop_client",
    "cozeloop_target",
    "create_eval_set",
    "otlp_target",
    "send_otlp",
    "upload_items",
]
