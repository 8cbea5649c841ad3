"""The specification of a task: its fields, and their text, read and written."""

from app.training.spec.document import MAX_SPEC_BYTES, read_spec, write_spec
from app.training.spec.fields import ConvertSpec, TaskSpec, fields_not_of
