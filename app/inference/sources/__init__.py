"""Sources of frames: folders, pictures, arrays, video files, streams."""

from app.inference.sources.factory import open_source, open_video_source
from app.inference.sources.frames import Frame, Source
