"""Errors that users can correct. `cli.main` prints their message without a traceback, and exits with status 2."""

import argparse
import errno
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# Errors with which the system may stop a correct program: the disk is full or broken, memory or file descriptors ran
# out, permission is missing, a name is too long, or links form a circle.
REFUSED = frozenset(
    {*DISK_FULL, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EROFS}
    | {errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP}
)

LIKE = 0.66  # a word counts as a misspelling of another if they are at least this similar: about two of three letters
MAX_WORD = 60  # characters of a word that are compared
# Our words, and other tools' words for them. `cpu<host,x86` means that a user who writes host or x86 may mean our cpu.
# A word of another tool is in lower case, with `_` for all signs, and may have several meanings. A meaning is used if
# it is among the choices, or if it contains a blank, `=` or `-`.
OTHER_WORDS = """
gpu<cuda,cuda_0,gpu_0,nvidia,0;
cpu<host,x86; tpu<xla; xla_cpu<xla;
fp16<float16,half,f16,16,fp16_true,16_true; bf16<bfloat16,bf16_true; fp64<float64,double,f64,64,64_true;
fp32<float32,float,single,full,f32,32,32_true; fp16_mixed<16_mixed,amp,autocast,mixed,mixed_float16;
bf16_mixed<amp,autocast,mixed,mixed_bfloat16; int8<i8,qint8,quantized; throughput<speed;
train<training; protocol=fit<fit; infer<inference,eval,evaluate,evaluation,predict,prediction,forward,test,validate;
generate<generation,decode,sample; compile=true<compile,torch_compile,inductor,dynamo; server<serve,serving;
pytorch<torch,eager; lightning<pl,pytorch_lightning; keras<tf,tensorflow; onnxruntime<onnx,ort; openvino<ov;
random<fake,synthetic,dummy,noise; fashion_mnist<fmnist;
none<no,off,false,null,disabled;
batch_size<batch,bs,b,minibatch,mini_batch,train_batch_size,per_device_batch_size; precision<dtype,torch_dtype;
device<accelerator,hardware; devices<num_gpus,n_gpus,ngpu,num_devices,world_size; protocol<scenario;
engine<backend,framework,runtime; engine.backend<backend; model<net,network,arch,architecture; model.name<variant;
model.target<target,class; model.weights<checkpoint,ckpt;
model.optimizer<optimizer,optim,opt,optimizer_name;
model.learning_rate<lr,base_lr; model.input_shape<input_size,shape,img_size,imgsz,resolution;
model.batch_args.seq_len<seq_len,seq_length,sequence_length,max_length,max_len,max_seq_len;
generate.new_tokens<max_new_tokens; data<dataset; data.path<data_dir,dataset_path; data.num_workers<workers;
data.train_images<num_samples,num_images,limit; server.workers<workers; server.rate<qps,rps;
server.latency_ms<latency,slo;
threads<num_threads,n_threads,nthreads,cores,cpus,num_cores,omp_num_threads;
seed<random_seed,manual_seed,random_state;
epochs<epoch,num_epochs,n_epochs,max_epochs,nepochs;
steps<iterations,iters,n_iter,num_steps,n_steps,max_steps,num_iterations;
repeats<runs,n_runs,num_runs,trials,repetitions,reps,n;
window.measure_s<duration,time,seconds,min_run_time,measure_time;
out<output,output_dir,outdir,out_dir,save_dir,log_dir,logdir,o; tracking<tracker,logger;
verbose<debug;
run<bench,benchmark,measure,start,exec,time,profile; doctor<devices,info,env,check,system,hardware;
best<search,tune,find,fastest,optimize,recommend,serve; view<show,open,display; report<results,html,plot,summary;
compare<diff,vs; sync<push,upload; ui<dashboard,mlflow; replay<reproduce; init<new,create; -m<sweep,grid;
accelbench plan<dry_run,preview,estimate; run --help<list,ls,models,settings,options; --help<help; --version<version,v;
"""


class UserError(Exception):
    """A mistake in the user's request. The message names the flag or the file, and says how to correct the mistake."""


def how_to_install(extra: str) -> str:
    """Returns the command that installs an extra. It works for an installed wheel and for an installed checkout."""
    return f"pip install 'accelbench[{extra}]'"


def asking(words: Iterable[str]) -> str:
    """Returns the end of a message about an unknown word: ` Did you mean cnn or rnn?`. Empty if `words` is empty."""
    joined = " or ".join(words)
    return f" Did you mean {joined}?" if joined else ""


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Returns the end of a message about an unknown `word`. It suggests those of the `choices` that are similar."""
    return asking(meant_by(word, choices))


def other_words(word: object, choices: Collection[str]) -> list[str]:
    """Returns our words for a word of another tool, such as `torch.float16`, `cuda:0` or `batch-size`.

    If `word` is one of our `choices`, returns only `word`. Returns an empty list if there is no word of ours for it.
    """
    text = str(word)[:MAX_WORD].lower()
    if text in choices:
        return [text]
    if numbered := re.fullmatch(r"(?:cuda|gpu)\W?([1-9]\d*)", text):
        return [f"CUDA_VISIBLE_DEVICES={numbered[1]} accelbench device=gpu"]
    for part in (text, text.rpartition(".")[2]):
        name = re.sub(r"\W", "_", part)
        every = re.findall(rf"\s([^<;\n]+)<(?:[^;]*,)?{name}(?=[,;])", OTHER_WORDS)
        if meant := [ours for ours in every if ours in choices or re.search("[ =-]", ours)]:
            return meant
    return []


def meant_by(word: object, every: Iterable[str]) -> list[str]:
    """Returns the words in `every` that the user may have meant by `word`.

    If `word` is a word of another tool, returns our words for it. Otherwise, returns the word with the most similar
    spelling. If no spelling is similar, returns the longest word that is a part of `word`.
    """
    from difflib import get_close_matches  # not at the top: few runs need it

    choices = [choice for choice in every if choice != word]
    if ours := other_words(word, choices):
        return ours
    text = str(word)[:MAX_WORD].lower()
    near = get_close_matches(text, choices, cutoff=LIKE)
    # The first match is the most similar. But swapped letters are the most likely mistake: `modle` is model, not mode.
    near.sort(key=lambda choice: sorted(choice) != sorted(text))
    inside = [choice for choice in choices if re.search(rf"(?<![a-z\d]){re.escape(choice)}(?![a-z\d])", text)]
    return near[:1] or sorted(inside, key=len)[-1:]


class UnknownChoiceError(UserError):
    """A setting has an unknown word as its value. The message lists the possible values."""

    def __init__(self, flag: str, value: object, choices: Iterable[str], meant: Iterable[str] = ()) -> None:
        listed = list(choices)
        hint = asking(meant) or did_you_mean(value, listed)
        super().__init__(f"{flag}={value}: unknown {flag}.{hint} Choose from: {', '.join(listed)}.")


class WriteError(UserError):
    """A file could not be written."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {'disk full' if error.errno in DISK_FULL else f'not writable ({error.strerror})'}")


@contextmanager
def writing_errors(what: object) -> Iterator[None]:
    """Raises a WriteError with `what` in its message if an OSError is raised inside the context."""
    try:
        yield
    except OSError as error:
        raise WriteError(str(what), error) from error


class RefusedError(UserError):
    """The operating system refused a call, for example because the disk is full. accelbench is not the cause."""

    def __init__(self, error: OSError, path: object = None) -> None:
        is_full = error.errno in DISK_FULL
        where = path or error.filename or ("the output, or a temporary file" if is_full else None)
        problem = "disk full" if is_full else error.strerror
        super().__init__(f"{where}: {problem}" if where else str(problem))


class DataError(UserError):
    """A data source that is missing, incomplete or altered."""


class DownloadError(DataError):
    """A data set that could not be downloaded."""


class ChangedError(UserError):
    """The user's code or data changed during a sweep. The remaining cells would measure something else."""


class BusyError(UserError):
    """Another process holds a lock that this one needs."""


class UnsupportedError(Exception):
    """This machine or engine can't run the cell. The cell is skipped, and the message says why."""


class InvalidError(UserError):
    """The numbers of a cell are not published: they can't be true, or do not belong to the requested settings."""


class Interrupted(KeyboardInterrupt):  # noqa: N818  # as Python's own
    """The user has interrupted a sweep. `when` says how far it was. `folder` contains the records, if there are any."""

    def __init__(self, when: str, folder: str = "") -> None:
        super().__init__(f"Interrupted{when} {folder}".rstrip())
        self.folder = folder


class Parser(argparse.ArgumentParser):
    """The argument parser of every command. It raises a `UserError` instead of exiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)  # no abbreviations: a mistyped flag must not set another one

    def error(self, message: str, meant: str = "") -> NoReturn:
        """Raises a UserError with argparse's message. The error also lists the choices, or a similar flag."""
        if choice := re.search(r"argument ([^\s/]+)\S*: invalid choice: '?(.*?)'? \(choose from (.*)\)", message):
            raise UnknownChoiceError(choice[1], choice[2], re.findall(r"[\w-]+", choice[3]))
        if number := re.search(r"argument (\S+): invalid (int|float) value: '(.*)'", message):
            kind = "whole number" if number[2] == "int" else "number"
            raise UserError(f"{number[1]} {number[3][:MAX_WORD]}: should be a {kind}")
        flag = re.search(r"unrecognized arguments: (\S+)", message)
        hint = meant or (did_you_mean(flag[1], self._option_string_actions) if flag else "")
        raise UserError(f"{message}.{hint} `{self.prog} --help` lists all flags")
