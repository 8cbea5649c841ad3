"""Where frames come from: folders, pictures, arrays, video files, streams."""

from app.inference.sources.factory import open_reel, open_source
from app.inference.sources.frames import Frame, Source

__all__ = ["Frame", "Source", "open_reel", "open_source"]
