"""Sends exported documents to services."""

from agent_eval.uploads._client import Client, InvalidTarget, UploadError, checked_url
from agent_eval.uploads.otlp import OtlpTarget, otlp_target, send_otlp

__all__ = ["Client", "InvalidTarget", "OtlpTarget", "UploadError", "checked_url", "otlp_target", "send_otlp"]
