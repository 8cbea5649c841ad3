"""`modelmill joint demo`: joint inference on one machine, with all that it needs made here and now.

`digits` draws the pictures, `models` trains the two models and writes them as ONNX, `deployment` starts web and nodes,
`stream` sends the pictures through the edge worker, `scores` says what that was worth, `show` tells it.
"""
