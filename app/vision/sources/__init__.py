"""Where frames come from: folders, pictures, arrays, video files, streams."""

from app.vision.sources.frames import Frame, Source
from app.vision.sources.opening import open_reel, open_source

__all__ = ["Frame", "Source", "open_reel", "open_source"]
