"""What a user asks for: the fields of a task, and their text, read and written."""

from app.training.spec.fields import ConvertSpec, TaskSpec
from app.training.spec.reader import MAX_SPEC_BYTES, read_spec
from app.training.spec.writer import write_spec

__all__ = ["MAX_SPEC_BYTES", "ConvertSpec", "TaskSpec", "read_spec", "write_spec"]
