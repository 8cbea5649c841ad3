"""`modelmill joint demo`: joint inference on one machine, with everything it needs created on the spot.

`digits` draws the pictures, `models` trains the two models and writes them as ONNX, `deployment` starts web server and
nodes, `stream` sends the pictures through the edge worker, `scores` evaluates the result, `show` prints it.
"""
