"""The product's fork server without the libraries of the real toolchains: the stages of these tests need none of them,
and a worker that is started anew every second does."""

from app.conversion.toolchains import forkserver

forkserver.PRELOADED = ("app.conversion.stages.child", "tests.chaos.stages")
forkserver.main()
