"""Runs a model on a picture: opens it, prepares the picture, and reads boxes or classes out of what it answers.

Used by the workers of joint inference and the stages of video, on nodes that have neither Redis, SQL nor an object
store. Knows the converter's file formats, and no other capability.
"""
