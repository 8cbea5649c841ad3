"""The operator: JointInferenceServices of a Kubernetes cluster become services here, and their status goes back.

It works on the same store as the web, as one of its users. `mirror` says what is to be done and knows no framework;
`handlers` binds that to kopf; `running` is the process. Needs the extra k8s. Exactly one may run.
"""
