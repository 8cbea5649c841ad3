"""Runs a model on a picture: opens it, prepares the picture, and reads boxes or classes from its outputs.

Used by the workers of joint inference and the stages of video, on nodes that have neither Redis, SQL nor an object
store. Depends on the converter's file formats, and on no other capability.
"""
