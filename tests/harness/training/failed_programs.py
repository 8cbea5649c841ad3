"""What programs that failed have written, as verl, Ray, Hydra, OmegaConf, PyTorch and Python do; and what it means."""

from __future__ import annotations

from dataclasses import dataclass

from app.training.model import FailureKind

SHORT, USER, RUNTIME = FailureKind.INSUFFICIENT_RESOURCES, FailureKind.USER_ERROR, FailureKind.RUNTIME_ERROR
MEMORY, INFRA = FailureKind.OUT_OF_MEMORY, FailureKind.INFRA_ERROR
COMMAND, DIED = "JOB_ENTRYPOINT_COMMAND_ERROR", "JOB_SUPERVISOR_ACTOR_DIED"
HYDRA_ENDS = "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"

VERL_TOO_FEW = """\
\x1b[36m(TaskRunner pid=8051, ip=10.0.0.7)\x1b[0m {'actor_rollout_ref': {'actor': {'strategy': 'fsdp'}}}
Error executing job with overrides: ['trainer.n_gpus_per_node=8', 'trainer.nnodes=1']
Traceback (most recent call last):
  File "/opt/verl/trainer/main_ppo.py", line 72, in run_ppo
    ray.get(runner.run.remote(config))
  File "/opt/ray/_private/worker.py", line 861, in get_objects
    raise value.as_instanceof_cause()
ray.exceptions.RayTaskError(ValueError): \x1b[36mray::TaskRunner.run()\x1b[39m (pid=8051, ip=10.0.0.7, actor_id=ec8f)
  File "/opt/verl/trainer/ppo/ray_trainer.py", line 104, in _check_resource_available
    f"Total available GPUs {total_available_gpus} is less than total desired GPUs {total_required_gpus}"
ValueError: Total available GPUs 0 is less than total desired GPUs 8
"""
SOURCE_LINES = """\
Traceback (most recent call last):
  File "/opt/verl/trainer/ppo/ray_trainer.py", line 104, in _check_resource_available
    raise ValueError(f"Total available GPUs {available} is less than total desired GPUs {required}")
  File "/opt/verl/trainer/ppo/ray_trainer.py", line 117, in _check_resource_available
    f"Resource pool {resource_pool_name}: {num_gpus}*{num_nodes} cannot be satisfied in this ray cluster"
  File "/opt/verl/single_controller/ray/base.py", line 230, in _check_resource_available
    f"Cannot satisfy placement group requirement for pool '{req['pool']}' requiring {req['gpu']} GPUs and "
NameError: name 'required' is not defined
"""
BAD_ACTOR = """\
Traceback (most recent call last):
  File "/opt/verl/trainer/main_ppo.py", line 160, in main
    validate_config(
hydra.errors.InstantiationException: Error in call to target 'verl.workers.config.FSDPActorConfig':
AssertionError("[actor] Please set at least one of 'actor.ppo_micro_batch_size' or 'actor.ppo_micro_batch_size_per_gpu\
'")
full_key: actor_rollout_ref.actor
"""
NOISE = "".join(f"\x1b[33m(raylet)\x1b[0m [2026-11-20 10:00:{n:02}] warning: spilled 2098 MiB\n" for n in range(40))
NODE_DIED = """\
Job supervisor actor died: The actor died unexpectedly before finishing this task.
\tclass_name: JobSupervisor
\tactor_id: 5066c201b724a3936948a11201000000
\tnamespace: SUPERVISOR_ACTOR_RAY_NAMESPACE
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed \
by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed unexpectedly.
"""
REMOTE_NODE_DIED = """\
Traceback (most recent call last):
  File "/opt/verl/trainer/main_ppo.py", line 46, in run_ppo
    ray.get(runner.run.remote(config))
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict
The actor died because its node has died. Node Id: 54cf4b16
\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats
"""
WORKER_DIED = """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: TaskRunner
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process \
is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called.
"""
CUDA = """\
ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=118848, ip=10.0.0.7)
  File "/opt/verl/single_controller/ray/base.py", line 432, in func
    return getattr(self.worker_dict[key], name)(*args, **kwargs)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 27.12 GiB. GPU 0 has a total capacity of 79.10 GiB
"""
MEMORY_PRESSURE = """\
\x1b[33m(raylet)\x1b[0m [2026-04-02 15:02:00,117 E 135782 135782] (raylet) node_manager.cc:3069: 1 Workers (tasks / \
actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 351e, IP: 10.0.0.7)
"""
MISSING_FILE = """\
Error executing job with overrides: []
Traceback (most recent call last):
  File "/opt/verl/trainer/main_ppo.py", line 6, in main
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: '/private/common/datasets/gsm8k/train.parquet'
"""
NO_MODEL = """\
Traceback (most recent call last):
  File "/opt/huggingface_hub/utils/_validators.py", line 154, in validate_repo_id
    raise HFValidationError(
huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/m/Qwen'.
"""
CUT_OFF = """\
ray.exceptions.RayTaskError({}): ray::TaskRunner.run() (pid=8051, ip=10.0.0.7, actor_id=ec8f)
  File "/opt/verl/trainer/main_ppo.py", line 46, in run
"""
CHAINED = """\
Traceback (most recent call last):
  File "train.py", line 3, in load
    open("cache.bin")
FileNotFoundError: [Errno 2] No such file or directory: 'cache.bin'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    step()
ZeroDivisionError: division by zero
"""
AFTER_THE_END = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise AssertionError
AssertionError
\x1b[36m(WorkerDict pid=1230)\x1b[0m Exception ignored in: <function Engine.__del__ at 0x7f>
\x1b[36m(WorkerDict pid=1230)\x1b[0m TypeError: 'NoneType' object is not callable
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "pool.py", line 268, in __del__
FileNotFoundError: [Errno 2] No such file or directory: '/tmp/pool'
"""


@dataclass(frozen=True)
class Case:
    name: str
    kind: FailureKind
    summary: str
    log: str = ""
    message: str = ""
    exit_code: int | None = 1
    error_type: str = COMMAND


CASES = [
    Case(
        "verl 0.3 and later",
        SHORT,
        "ValueError: Total available GPUs 0 is less than total desired GPUs 8",
        VERL_TOO_FEW,
    ),
    Case(
        "verl, a fraction free",
        SHORT,
        "7.0 is less than",
        "ValueError: Total available GPUs 7.0 is less than total desired GPUs 8",
    ),
    Case(
        "verl, in the message alone",
        SHORT,
        "GPUs 8.0 is less",
        message="ValueError: Total available GPUs 8.0 is less than total desired GPUs 16",
    ),
    Case(
        "verl, colours inside",
        SHORT,
        "GPUs 0 is",
        "ValueError: Total available GPUs \x1b[31m0\x1b[0m is less than total desired GPUs 8",
    ),
    Case("verl, then forty lines of noise", SHORT, "Total available GPUs 0", VERL_TOO_FEW + NOISE, NOISE[-900:]),
    Case(
        "verl 0.3, a pool",
        SHORT,
        "Resource pool global_pool",
        "ValueError: Resource pool global_pool: 8*2 cannot be satisfied in this ray cluster",
    ),
    Case(
        "verl 0.4, a pool, no space",
        SHORT,
        "8*2cannot",
        "ValueError: Resource pool global_pool: 8*2cannot be satisfied in this ray cluster",
    ),
    Case(
        "verl 0.10, a node",
        SHORT,
        "Cannot satisfy placement group",
        "ValueError: Cannot satisfy placement group requirement for pool 'global_pool' requiring 8 "
        "GPUs and 24 CPUs on a single node. Max available on any single node: 4.0 GPUs, 2.0 CPUs.",
    ),
    Case(
        "verl found too few once, and ended with something else",
        RUNTIME,
        "ValueError: my own bug",
        VERL_TOO_FEW + 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: my own bug\n',
    ),
    Case(
        "verl's configuration, whose cause is on the next line",
        USER,
        "FSDPActorConfig': AssertionError(\"[actor] Please set",
        BAD_ACTOR,
    ),
    Case(
        "the same, in an actor, with lines of others between",
        USER,
        "FSDPActorConfig': AssertionError(\"[actor] Please set",
        "".join(f"(TaskRunner pid=3) {line}\n(raylet) spilled\n" for line in BAD_ACTOR.splitlines()),
    ),
    Case("the source lines of verl", RUNTIME, "NameError", SOURCE_LINES),
    Case(
        "no room for the driver in time",
        SHORT,
        "failed to start within 900.0 seconds",
        message="Job supervisor actor failed to start within 900.0 seconds. This timeout can be configured …",
        exit_code=None,
        error_type="JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
    ),
    Case(
        "no room for the driver at all",
        SHORT,
        "could not be scheduled",
        message="Job supervisor actor could not be scheduled: The actor is not schedulable: …",
        exit_code=None,
        error_type="JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
    ),
    Case("its node was killed", INFRA, "Job supervisor actor died", message=NODE_DIED, exit_code=None, error_type=DIED),
    Case(
        "its node was killed, and it had said FileNotFoundError",
        INFRA,
        "actor died",
        MISSING_FILE,
        NODE_DIED,
        None,
        DIED,
    ),
    Case("its node was killed after verl had given up", SHORT, "Total available", VERL_TOO_FEW, NODE_DIED, None, DIED),
    Case(
        "Ray could not start its driver",
        INFRA,
        "Failed to start supervisor actor",
        message="Failed to start supervisor actor x--a01: 'timeout'",
        exit_code=None,
        error_type="JOB_SUPERVISOR_ACTOR_START_FAILURE",
    ),
    Case(
        "Ray does not say",
        INFRA,
        "Unexpected error occurred",
        message="Unexpected error occurred: …",
        exit_code=None,
        error_type="JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
    ),
    Case("the node of an actor died", INFRA, "The actor died because its node has died", REMOTE_NODE_DIED),
    Case(
        "the node of a task died",
        INFRA,
        "Task failed because the node",
        "ray.exceptions.RayTaskError: …\nTask failed because the node it was running on is dead or "
        "unavailable. Node IP: 10.0.0.7",
    ),
    Case("an actor died, nobody knows why", RUNTIME, "ray.exceptions.ActorDiedError: The actor died", WORKER_DIED),
    Case(
        "its environment",
        USER,
        "runtime_env setup failed",
        message="runtime_env setup failed: Failed to set up runtime environment.",
        exit_code=None,
        error_type="RUNTIME_ENV_SETUP_FAILURE",
    ),
    Case("no such command", USER, "/bin/sh: 1: pyhton3: not found", "/bin/sh: 1: pyhton3: not found\n", exit_code=127),
    Case(
        "a command that is no program",
        USER,
        "Permission denied",
        "/bin/sh: 1: ./train.py: Permission denied\n",
        exit_code=126,
    ),
    Case("no such file", USER, "FileNotFoundError: [Errno 2]", MISSING_FILE + HYDRA_ENDS),
    Case(
        "no such file, in an actor",
        USER,
        "FileNotFoundError: [Errno 2]",
        "ray.exceptions.RayTaskError(FileNotFoundError): ray::TaskRunner.run() (pid=1, ip=10.0.0.7)\n"
        "  File \"x.py\", line 1\nFileNotFoundError: [Errno 2] No such file or directory: 'x'\n",
    ),
    Case(
        "no such module",
        USER,
        "No module named 'verl'",
        "Traceback (most recent call last):\n  File \"t.py\", line 1\nModuleNotFoundError: No module named 'verl'\n",
    ),
    Case(
        "no such module, of -m",
        USER,
        "No module named 'verl'",
        "/usr/bin/python3: Error while finding module specification for 'verl.trainer.main_ppo' "
        "(ModuleNotFoundError: No module named 'verl')\n",
    ),
    Case(
        "no such program",
        USER,
        "can't open file",
        "python3: can't open file '/private/common/code/t.py': [Errno 2] No such file or directory\n",
        exit_code=2,
    ),
    Case("no such file, in an actor, cut off", USER, "(FileNotFoundError)", CUT_OFF.format("FileNotFoundError")),
    Case("a GPU's memory, in an actor, cut off", MEMORY, "(OutOfMemoryError)", CUT_OFF.format("OutOfMemoryError")),
    Case("a mistake, in an actor, cut off", RUNTIME, "(KeyError)", CUT_OFF.format("KeyError")),
    Case("no such model", USER, "HFValidationError", NO_MODEL),
    Case(
        "unknown arguments",
        USER,
        "unrecognized arguments: --lr",
        "usage: train.py [--epochs N]\ntrain.py: error: unrecognized arguments: --lr\n",
        exit_code=2,
    ),
    Case(
        "Hydra: no such key",
        USER,
        "Could not override 'data.zzz'.",
        "Could not override 'data.zzz'.\nTo append to your config use +data.zzz=1\nKey 'zzz' is not "
        "in struct\n    full_key: data.zzz\n    object_type=dict\n" + HYDRA_ENDS,
    ),
    Case(
        "Hydra: such a key is there",
        USER,
        "Could not append to config.",
        "Could not append to config. An item is already at 'data'.\n" + HYDRA_ENDS,
    ),
    Case(
        "Hydra: not its language",
        USER,
        "Error parsing override 'zz'",
        "Error parsing override 'zz'\nmissing EQUAL at '<EOF>'\n" + HYDRA_ENDS,
    ),
    Case(
        "Hydra: no such configuration",
        USER,
        "Cannot find primary config 'nope'.",
        "Cannot find primary config 'nope'. Check that it's in your config search path.\n\nConfig "
        "search path:\n\tprovider=hydra\n" + HYDRA_ENDS,
    ),
    Case(
        "Hydra, in full",
        USER,
        "hydra.errors.ConfigCompositionException",
        'Traceback (most recent call last):\n  File "x.py", line 1\n'
        "hydra.errors.ConfigCompositionException: Could not override 'data.zzz'.\nTo append to your "
        "config use +data.zzz=1\n",
    ),
    Case(
        "OmegaConf: no such key",
        USER,
        "Key 'foo' is not in struct",
        'Traceback (most recent call last):\n  File "x.py", line 1\n'
        "omegaconf.errors.ConfigAttributeError: Key 'foo' is not in struct\n    full_key: data.foo\n" + HYDRA_ENDS,
    ),
    Case(
        "OmegaConf: a value is missing",
        USER,
        "Missing mandatory value: data.train",
        'Traceback (most recent call last):\n  File "x.py", line 1\n'
        "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.train\n" + HYDRA_ENDS,
    ),
    Case("a GPU's memory", MEMORY, "torch.OutOfMemoryError: CUDA out of memory.", CUDA),
    Case(
        "a GPU's memory, older PyTorch",
        MEMORY,
        "CUDA out of memory",
        "RuntimeError: CUDA out of memory. Tried to allocate 12.19 GiB (GPU 0; 7.44 GiB total capacity)\n",
    ),
    Case(
        "a GPU's memory, vLLM",
        MEMORY,
        "CUDA error: out of memory",
        "CUDA error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n",
    ),
    Case(
        "the machine's memory, of a tensor",
        MEMORY,
        "DefaultCPUAllocator",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 4503599627370496 bytes.\n",
    ),
    Case(
        "the machine's memory, of Python",
        MEMORY,
        "MemoryError",
        'Traceback (most recent call last):\n  File "t.py", line 1\nMemoryError\n',
    ),
    Case("Ray's memory monitor", MEMORY, "killed due to memory pressure", MEMORY_PRESSURE + WORKER_DIED),
    Case(
        "Ray's memory monitor, of a task",
        MEMORY,
        "running low on memory",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n",
    ),
    Case(
        "the kernel",
        MEMORY,
        "signal 9",
        "epoch 3\n",
        "Job entrypoint command failed with exit code -9, last available logs …",
        -9,
    ),
    Case("the kernel, through a shell", MEMORY, "signal 9", "epoch 3\nKilled\n", exit_code=137),
    Case("an exception", RUNTIME, "ZeroDivisionError: division by zero", CHAINED),
    Case(
        "an exception, then one of another", RUNTIME, "AssertionError", "AssertionError\n(Worker pid=1) KeyError: 'x'\n"
    ),
    Case("one ignored, then one more", RUNTIME, "KeyError", "Exception ignored in: <f>\nTypeError: x\nKeyError: 'y'\n"),
    Case("an exception, then those of dying", RUNTIME, "AssertionError", AFTER_THE_END),
    Case(
        "an exception of an actor alone",
        RUNTIME,
        "KeyError: 'reward'",
        "\x1b[36m(TaskRunner pid=3)\x1b[0m Traceback (most recent call last):\n\x1b[36m(TaskRunner "
        'pid=3)\x1b[0m   File "r.py", line 1\n\x1b[36m(TaskRunner pid=3)\x1b[0m KeyError: '
        "'reward'\nstopping\n",
    ),
    Case("a crash", RUNTIME, "Ended by signal 11 (SIGSEGV): epoch 3", "epoch 3\n", exit_code=-11),
    Case(
        "an exit code, and words",
        RUNTIME,
        "Ended with exit code 3: the loss is not a number",
        "epoch 3\nthe loss is not a number\n\n",
        exit_code=3,
    ),
    Case(
        "an exit code alone",
        RUNTIME,
        "Ended with exit code 3",
        message="Job entrypoint command failed with exit code 3. No logs available.",
        exit_code=3,
    ),
    Case("nothing", FailureKind.UNKNOWN, "nothing is known", exit_code=None, error_type=""),
    Case(
        "a message alone",
        FailureKind.UNKNOWN,
        "something odd",
        message="\n something odd\n",
        exit_code=None,
        error_type="",
    ),
]
