"""Every mistake in a job file is one clear sentence that names the file, the key, the value and what would be right."""

import pytest

import stalegrad as sg
from stalegrad._internal.errors import JobError
from stalegrad.protocol.settings import CHOSEN
from stalegrad.runs.jobs import JobFile

MODEL = 'model = "stalegrad.datasets.models:gaussian"\n'
KERNEL = 'kernel = {name = "SGLD", step_size = 1e-4}\n'
STEPS = "steps = 100\n"
GOOD = MODEL + KERNEL + STEPS

KEYS = (
    "A job takes: model, kernel, steps, workers, servers, max_staleness, policy, seed, burn_in, thin, keep, "
    "architecture, messages, checkpoint_every, on_store_error, warmup, engine, engines, observers, store."
)

BAD = {
    # what is not TOML
    "no value": (GOOD + "seed =", "is not TOML: … (at end of document)"),
    "no key": (GOOD + "\n= 3", "is not TOML: … (at line 5, column 1)"),
    "no quotes": (GOOD + "engine = threads", "is not TOML: … (at line 4, column 10)"),
    "twice": (GOOD + STEPS, "is not TOML: … (at line 4, column 12)"),
    "YAML": ("steps: 100", "is not TOML: … (at line 1, column 6)"),
    "two lines": (GOOD + 'engine = "thr\neads"', "is not TOML: … (at line 4, column 14)"),
    # what is missing
    "empty": ("", "model=None: is missing. model and steps must be given."),
    "no model": (KERNEL + STEPS, "model=None: is missing. model and steps must be given."),
    "warmup": (
        MODEL + STEPS + "[warmup]\nbais = 0.1",
        "warmup.bais=0.1: is not known. Did you mean 'bias'? It takes: bias, gradients, coordinates, ",
    ),
    "no steps": (MODEL + KERNEL, "steps=None: is missing. model and steps must be given."),
    "steps too low": (
        MODEL + '[kernel]\nname = "SGLD"\nstep_size = 1\nsteps = 5',
        "kernel.steps=5: belongs to the job, not to kernel. Keys of the job itself come before the first [table] of",
    ),
    "steps among arguments": (
        KERNEL + '[model]\nfunction = "a:b"\n[model.arguments]\nsteps = 5',
        "steps=None: is missing. It stands in [model.arguments]. Keys of the job itself come before the first [table]",
    ),
    # what is not known
    "slip": (GOOD + "worker = 2", f"worker=2: is not known. Did you mean 'workers'? {KEYS}"),
    "nothing near": (GOOD + "colour = 1", f"colour=1: is not known. {KEYS}"),
    "schedule": (
        GOOD + '[schedule]\nname = "Polynomial"',
        "schedule={'name': 'Polynomial'}: is not known. A schedule is the kernel's step size: kernel.step_size = {name",
    ),
    "step size": (GOOD + "step_size = 0.1", "step_size=0.1: is not known. It belongs to the kernel: kernel.step_size."),
    "function": (GOOD + "function = 'a:b'", "function='a:b': is not known. It belongs to the model: model.function."),
    "arguments": (
        GOOD + "[arguments]\nn = 1",
        "arguments={'n': 1}: is not known. They belong to the model: model.argu",
    ),
    "repeats": (GOOD + "repeats = 3", f"repeats=3: is not known. {KEYS}"),
    # numbers and words
    "steps in words": (
        MODEL + KERNEL + "steps = 'many'",
        "steps='many': is not a whole number. Give a whole number fr",
    ),
    "half steps": (MODEL + KERNEL + "steps = 1e3", "steps=1000.0: is not a whole number."),
    "no step": (MODEL + KERNEL + "steps = 0", "steps=0: is out of range. Give a whole number from 1 to"),
    "no worker": (GOOD + "workers = 0", "workers=0: is out of range. Give a whole number from 1 to 65536."),
    "true servers": (GOOD + "servers = true", "servers=True: is a boolean, not a number."),
    "negative seed": (GOOD + "seed = -1", "seed=-1: is out of range. Give a whole number from 0 to"),
    "negative bound": (GOOD + "max_staleness = -1", "max_staleness=-1: is out of range. Give a whole number ≥ 0."),
    "policy": (GOOD + "policy = 'forget'", "policy='forget': is not known. Give one of: 'drop', 'wait'."),
    "nothing to wait for": (GOOD + "policy = 'wait'", "max_staleness=None: leaves policy='wait' nothing to hold."),
    "all burnt": (GOOD + "burn_in = 100", "burn_in=100: and thin=1 leave no draw of 100 steps. Keep at least one"),
    "thin": (GOOD + "thin = 0", "thin=0: is out of range. Give a whole number ≥ 1."),
    "checkpoints": (GOOD + "checkpoint_every = -1", "checkpoint_every=-1: is out of range. Give a finite number ≥ 0."),
    "store error": (
        GOOD + "on_store_error = 'cry'",
        "on_store_error='cry': is not known. Give one of: 'stop', 'contin",
    ),
    "store": (GOOD + "store = true", "store=True: is not a path. Give a folder for the run, such as"),
    "empty store": (GOOD + "store = ' '", "store=' ': is not a path."),
    # models
    "model number": (KERNEL + STEPS + "model = 3", 'model=3: is not a table. Give "module:function", or a table with'),
    "model without colon": (KERNEL + STEPS + "model = 'mine'", "model.function='mine': does not name a function. Give"),
    "model of a path": (
        KERNEL + STEPS + "model = 'models/mine.py:f'",
        "model.function='models/mine.py:f': does not na",
    ),
    "no function": (
        KERNEL + STEPS + "[model]",
        "model={}: has no function. A model takes: function, and the arguments",
    ),
    "stray argument": (
        KERNEL + STEPS + "[model]\nfunction = 'a:b'\nbatch_size = 3",
        "model.batch_size=3: is not known. A model takes: function, and the arguments of that function in a table of",
    ),
    "arguments as list": (
        KERNEL + STEPS + "[model]\nfunction = 'a:b'\narguments = [1]",
        "model.arguments=[1]: is not a table. Give the function's arguments by name.",
    ),
    "date": (
        KERNEL + STEPS + "[model]\nfunction = 'a:b'\narguments = {since = 2016-12-05}",
        "model.arguments.since=datetime.date(2016, 12, 5): is a date. Give it as text or as numbers.",
    ),
    "infinity": (
        KERNEL + STEPS + "[model]\nfunction = 'a:b'\narguments = {deep = {scales = [1.0, inf]}}",
        "model.arguments.deep.scales=inf: is not finite. Leave it out, or let the function take a word for it.",
    ),
    # kernels
    "kernel name": (MODEL + STEPS + "kernel = 'SGLD'", "kernel='SGLD': is not a table. Give a table such as {name = "),
    "unknown kernel": (
        MODEL + STEPS + "kernel = {name = 'SGMH'}",
        "kernel.name='SGMH': is no kernel that is known. Did",
    ),
    "friction": (
        MODEL + STEPS + "kernel = {name = 'SGHMC', step_size = 1, friction = 'much'}",
        "kernel.friction='much': is a str, not a number.",
    ),
    "kernel key": (
        MODEL + STEPS + "kernel = {name = 'SGLD', stepsize = 1}",
        "kernel.stepsize=1: is not known. Did you mean 'step_size'? SGLD takes: step_size, temperature.",
    ),
    "schedule key": (
        MODEL + STEPS + "kernel = {name = 'SGLD', step_size = {name = 'Inverse', base = 1, gama = 1}}",
        "kernel.step_size.gama=1: is not known. Did you mean 'gamma'? Inverse takes: base, gamma, power.",
    ),
    "sgd": (
        MODEL + STEPS + "kernel = {name = 'SGHMC', sgd = {lr = 0.1, momentum = 1.0}}",
        "kernel.sgd.momentum=1.0: leaves no friction. Give a number in [0, 1), such as 0.9.",
    ),
    "two kernels, one server": (
        MODEL + STEPS + "[[kernel]]\nname = 'SGLD'\nstep_size = 1\n[[kernel]]\nname = 'SGLD'\nstep_size = 2",
        "kernel=[{'name': 'SGLD', 'step_size': 1}, {'name': 'SGLD', 'step_size': 2}]: is not one per server, of 1.",
    ),
    "second of two kernels": (
        MODEL
        + STEPS
        + "servers = 2\n[[kernel]]\nname = 'SGLD'\nstep_size = 1\n[[kernel]]\nname = 'SGLD'\nstep_size = 0",
        "kernel[1].step_size=0: is out of range. Give a finite number > 0.",
    ),
    "job key in the second kernel": (
        MODEL
        + STEPS
        + "[[kernel]]\nname = 'SGLD'\nstep_size = 1\n[[kernel]]\nname = 'SGLD'\nstep_size = 1\nservers = 2",
        "kernel[1].servers=2: belongs to the job, not to kernel[1].",
    ),
    "kernels of numbers": (MODEL + STEPS + "kernel = [1]", "kernel[0]=1: is not a table."),
    # engines
    "unknown engine": (
        GOOD + "engine = 'slurm'",
        "engine='slurm': is not known. Give one of: 'threads', 'processes', 'mpi', 'ray', 'inline'.",
    ),
    "engine as table": (
        GOOD + "engine = {name = 'processes', threads = 2}",
        "engine={'name': 'processes', 'threads': 2}: is a table. Name it, engine = \"processes\"; its settings go into",
    ),
    "unknown settings": (
        GOOD + "[engines.process]\nthreads = 2",
        "engines.process={'threads': 2}: is not known. Did you mean 'processes'? There are settings for: threads, proc",
    ),
    "settings of another": (
        GOOD + "[engines.threads]\nthreads = 2",
        "engines.threads.threads=2: is not known. Did you mean 'update_threads'? Threads takes: patience, ",
    ),
    "bad settings of an engine that is not the one": (
        GOOD + "engine = 'threads'\n[engines.processes]\nthreads = 0",
        "engines.processes.threads=0: is out of range. Give a whole number ≥ 1.",
    ),
    "settings without a table": (
        GOOD + "engines = 3",
        "engines=3: is not a table. Give tables with settings: [engines",
    ),
    "settings of a word": (
        GOOD + "engines = {threads = 2}",
        "engines.threads=2: is not a table. Give a table with the",
    ),
    "law": (
        GOOD + "[engines.inline]\ncompute = {name = 'Gamma', mean = 1}",
        "engines.inline.compute.name='Gamma': is no law that is known. Give one of: 'Constant', 'Exponential', 'LogNor",
    ),
    "job key among settings": (
        GOOD + "[engines.inline]\nworkers = 3",
        "engines.inline.workers=3: belongs to the job, not to engines.inline.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file(case, write_job):
    text, message = BAD[case]
    path = write_job(text)
    with pytest.raises(JobError) as caught:
        JobFile.read(path)
    told = str(caught.value)
    begins, _, ends = message.partition(" … ")  # Python's own words in between differ from version to version
    assert told.startswith(f"{path} {begins}" if ends else f"{path}: {message}")
    assert told.endswith(ends)
    assert "\n" not in told


def test_there_are_enough_of_them():
    assert len(BAD) >= 30


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(JobError, match=r"none\.toml cannot be read: No such file or directory$"):
        JobFile.read(tmp_path / "none.toml")
    with pytest.raises(JobError, match=r"cannot be read: Is a directory$"):
        JobFile.read(tmp_path)
    (tmp_path / "latin.toml").write_bytes(GOOD.encode() + "# é".encode("latin-1"))
    with pytest.raises(JobError, match=r"latin\.toml is not text in UTF-8, as TOML must be: "):
        JobFile.read(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "job=None: is not a table. Give what JobFile.table() gave."),
        ({}, "model=None: is missing."),
        ({"note": "my own"}, "note='my own': is not known."),
    ],
)
def test_a_bad_table_in_a_store(table, message):
    with pytest.raises(sg.ArgumentError) as caught:
        JobFile.from_table(table)
    assert str(caught.value).startswith(message)


SETTING_ERRORS = {
    "steps": 0, "workers": 0, "servers": 1.5, "max_staleness": -1, "policy": "hold", "seed": -1, "burn_in": -2,
    "thin": 0, "architecture": {"name": "Elastic", "rho": -1.0}, "messages": "bytes",
    "checkpoint_every": -1.0, "on_store_error": "cry",
    "keep": "some",
}  # fmt: skip


@pytest.mark.parametrize("name", SETTING_ERRORS)
def test_python_and_files_give_the_same_error(name):
    """Also of what is legal in both: a checkpoint after every look, ``checkpoint_every=0``."""
    value = SETTING_ERRORS[name]
    table = {"model": "stalegrad.datasets.models:gaussian", "kernel": {"name": "SGLD", "step_size": 1e-4}, "steps": 100}
    with pytest.raises(sg.ArgumentError) as of_file:
        JobFile.from_table({**table, name: value})

    def call():
        arguments = {"steps": 100, "progress": False, name: sg.Elastic(rho=-1.0) if name == "architecture" else value}
        sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-4), **arguments)

    with pytest.raises(sg.ArgumentError) as of_call:
        call()
    assert str(of_file.value).removeprefix("architecture.") == str(of_call.value)


def test_a_checkpoint_after_every_look_is_legal_in_both(tmp_path):
    table = {"model": "stalegrad.datasets.models:gaussian", "kernel": {"name": "SGLD", "step_size": 1e-4}, "steps": 100}
    job = JobFile.from_table({**table, "checkpoint_every": 0}).changed(store=tmp_path / "run")
    potential = job.potential()
    assert sg.sample(potential, progress=False, **job.arguments(potential)).draws.shape[1] == 100


def test_every_setting_is_in_the_table_of_errors():
    assert set(SETTING_ERRORS) == set(CHOSEN)
