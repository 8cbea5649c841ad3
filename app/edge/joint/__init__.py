"""Joint inference on nodes: the bundled edge worker, the big model's server, and the library for users' scripts.

Imports neither Redis, SQL nor an object store. A script that replaces the edge worker starts with

    from app.edge.joint.joint import JointInference

    joint = JointInference.from_environment()
"""
