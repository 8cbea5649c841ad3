"""The operator: it mirrors JointInferenceServices of a Kubernetes cluster as services here, and writes their status
back.

It works on the same store as the web server, as one of its users. `mirror` has the logic without a framework;
`handlers` binds it to kopf; `running` is the process. Needs the extra k8s. Exactly one may run.
"""
