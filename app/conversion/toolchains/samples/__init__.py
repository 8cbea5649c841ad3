"""Reference samples: the pictures and arrays of a job, as model inputs, one at a time.

This package defines how a file becomes numbers. It must not import onnx, because edge workers read pictures with it.
"""

from app.conversion.sample_kinds import KINDS
from app.conversion.toolchains.samples.pictures import PictureReader, layout_of
from app.conversion.toolchains.samples.sampleset import Sample, SampleSet
from app.conversion.toolchains.samples.spec import InputSpec
