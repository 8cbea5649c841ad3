"""What a user may write where a name is expected."""

NASTY = ["a b", "it's", 'say "hi"', "a,b", "[1,2]", "{a: 1}", "$(touch gone)", "`touch gone`", "a;b", "a=b c=d", "模型",
         "back\\", 'back\\"', "\\\\", "null", "-1", "5", "é*?", "&& touch gone", "#", "!x", "%", "\\'",
         "trainer.nnodes=9"]  # fmt: skip
