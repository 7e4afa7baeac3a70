# SPDX-License-Identifier: Apache-2.0
"""Tells a `Tracker` what PyTorch does: 1.13 to current 2.x, by what is there rather than by version
number.

Hooked: the optimizers' step (2.x: the global step hooks; before: each class's `step`),
`GradScaler.step`, the DataLoader's iterator, `torch.autograd.backward`, DistributedDataParallel
(its forward, its buffer broadcast, and the gradients of the parameters that are ready last, which
part a rank's own backward pass from the wait for the others), the collectives of torch.distributed
and the wait for those that are asynchronous. No value is changed, nothing is fetched from a device,
and `uninstall` puts everything back. What cannot be hooked is left alone.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._recorder import recorder
from ._tracker import Tracker

COLLECTIVES = (
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce "
    "all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast "
    "broadcast_object_list gather gather_object monitored_barrier recv recv_object_list reduce "
    "reduce_scatter reduce_scatter_tensor scatter scatter_object_list send send_object_list "
    "_all_gather_base _reduce_scatter_base"
).split()
LEARNING_PASSES = 2  # in which all gradients are watched
LAST_GRADIENTS = 2  # that are watched from then on
WATCHED_MAX = 4096  # gradients, while learning

_NAN = float("nan")


class Hooks:
    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self._undo: List[Callable[[], None]] = []
        self._open_steps: Dict[int, List[int]] = {}
        self._spent: List[Watched] = []  # whose gradients are watched no longer
        self._passes = 0  # backward passes under way, in all threads

    def install(self, torch: Any) -> None:
        self._tensor_type = torch.Tensor
        for part in (
            self._hook_optimizers,
            self._hook_scaler,
            self._hook_loader,
            self._hook_backward,
            self._hook_ddp,
            self._hook_collectives,
        ):
            try:
                part(torch)
            except Exception:
                pass  # this PyTorch has it elsewhere: what that part measures stays unknown

    def uninstall(self) -> None:
        while self._undo:
            try:
                self._undo.pop()()
            except Exception:
                pass

    def _replace(self, owner: Any, name: str, wrapper_of: Callable[[Any], Any]) -> None:
        """Put a wrapper in the place of `owner.name`, to be put back by `uninstall`."""
        original = vars(owner)[name]
        wrapper = wrapper_of(original)
        setattr(owner, name, wrapper)

        in_scripts = _known_to_scripts(original, wrapper)

        def undo() -> None:
            in_scripts()
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _fault(self, error: Exception) -> None:
        self.tracker.recorder.fault(error)

    def _enter(self, begin: Callable[..., int], *arguments: int) -> int:
        try:
            return begin(*arguments)
        except Exception as error:
            self._fault(error)
            return -1

    def _leave(self, end: Callable[..., None], *arguments: Any) -> None:
        try:
            end(*arguments)
        except Exception as error:
            self._fault(error)

    # -- optimizers ------------------------------------------------------------------------------

    def _hook_optimizers(self, torch: Any) -> None:
        module: Any = sys.modules[
            "torch.optim.optimizer"
        ]  # 1.13 deletes the attribute of that name
        if hasattr(module, "register_optimizer_step_post_hook"):
            before = module.register_optimizer_step_pre_hook(self._step_begins)
            self._undo.append(before.remove)
            after = module.register_optimizer_step_post_hook(self._step_ended)
            self._undo.append(after.remove)
        else:
            self._replace(torch.optim.Optimizer, "_hook_for_profile", self._wrap_first_look)

    def _step_begins(self, optimizer: Any, *_: object) -> None:
        token = self._enter(self.tracker.optimizer_begin)
        self._open_steps.setdefault(id(optimizer), []).append(token)

    def _step_ended(self, optimizer: Any, *_: object) -> None:
        tokens = self._open_steps.pop(id(optimizer), [-1])
        token = tokens.pop()
        if tokens:
            self._open_steps[id(optimizer)] = tokens
        self._leave(self.tracker.optimizer_end, token, id(optimizer))

    def _wrap_first_look(self, original: Any) -> Any:
        """Before 2.0: every optimizer calls `_hook_for_profile` as it is made; then its class's
        step is wrapped."""
        hooks = self

        @functools.wraps(original)
        def hook_for_profile(optimizer: Any) -> None:
            original(optimizer)
            try:
                owner = type(optimizer)
                if not getattr(owner.step, "_vetta_hooked", False) and "step" in vars(owner):
                    hooks._replace(owner, "step", hooks._wrap_step)
            except Exception as error:
                hooks._fault(error)

        return hook_for_profile

    def _wrap_step(self, original: Any) -> Any:
        hooks, tracker = self, self.tracker

        @functools.wraps(original)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            token = hooks._enter(tracker.optimizer_begin)
            is_done = False
            try:
                result = original(optimizer, *args, **kwargs)
                is_done = True
                return result
            finally:
                hooks._leave(tracker.optimizer_end, token, id(optimizer), is_done)

        step._vetta_hooked = True  # type: ignore[attr-defined]
        return step

    def _hook_scaler(self, torch: Any) -> None:
        """`GradScaler.step` leaves the optimizer's step out when gradients overflow: an iteration
        all the same."""
        classes = []
        for place in (getattr(torch, "amp", None), torch.cuda.amp):
            scaler = getattr(place, "GradScaler", None)
            if scaler is not None and "step" in vars(scaler) and scaler not in classes:
                classes.append(scaler)
        hooks, tracker = self, self.tracker

        def wrap(original: Any) -> Any:
            @functools.wraps(original)
            def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                token = hooks._enter(tracker.optimizer_begin)
                is_done = False
                try:
                    result = original(scaler, optimizer, *args, **kwargs)
                    is_done = True
                    return result
                finally:
                    hooks._leave(tracker.optimizer_end, token, id(optimizer), is_done)

            return step

        for scaler in classes:
            self._replace(scaler, "step", wrap)

    # -- data ------------------------------------------------------------------------------------

    def _hook_loader(self, torch: Any) -> None:
        module = torch.utils.data.dataloader
        self._replace(module._BaseDataLoaderIter, "__next__", self._wrap_next)
        self._replace(module.DataLoader, "__iter__", self._wrap_iter)

    def _wrap_next(self, original: Any) -> Any:
        hooks, tracker, tensor_type = self, self.tracker, self._tensor_type

        @functools.wraps(original)
        def fetch(iterator: Any) -> Any:
            token = hooks._enter(tracker.data_begin, id(iterator))
            samples: Optional[int] = None
            is_exhausted = True
            try:
                batch = original(iterator)
                is_exhausted = False
                if token >= 0 and getattr(iterator, "_auto_collation", False):
                    samples = batch_size(batch, tensor_type)
                return batch
            finally:
                hooks._leave(tracker.data_end, token, samples, is_exhausted)

        return fetch

    def _wrap_iter(self, original: Any) -> Any:
        """Starting a loader's workers is a wait for data, too."""
        hooks, tracker = self, self.tracker

        @functools.wraps(original)
        def start(loader: Any) -> Any:
            token = hooks._enter(tracker.data_begin, id(loader))
            try:
                return original(loader)
            finally:
                hooks._leave(tracker.data_end, token, None, False)

        return start

    # -- backward --------------------------------------------------------------------------------

    def _hook_backward(self, torch: Any) -> None:
        hooks, tracker, tensor_type = self, self.tracker, self._tensor_type

        def wrap(original: Any) -> Any:
            @functools.wraps(original)
            def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
                token = hooks._enter(tracker.backward_begin)
                hooks._passes += 1
                try:
                    return original(tensors, *args, **kwargs)
                finally:
                    hooks._passes -= 1
                    loss = loss_of(tensors, tensor_type) if token >= 0 else _NAN
                    hooks._leave(tracker.backward_end, token, loss)

            return backward

        self._replace(torch.autograd, "backward", wrap)

    # -- DistributedDataParallel -----------------------------------------------------------------

    def _hook_ddp(self, torch: Any) -> None:
        ddp = torch.nn.parallel.DistributedDataParallel
        unserializable = torch.utils.hooks.unserializable_hook
        hooks, tracker = self, self.tracker

        def wrap_init(original: Any) -> Any:
            @functools.wraps(original)
            def init(module: Any, *args: Any, **kwargs: Any) -> None:
                original(module, *args, **kwargs)
                try:
                    if tracker.recorder.is_ready():
                        watch = LastGradients(tracker, unserializable, hooks._spent)
                        watch.start(module)
                        hooks._undo.append(_weak_call(watch.stop))  # the module may go
                except Exception as error:
                    hooks._fault(error)

            return init

        def wrap_forward(original: Any) -> Any:
            @functools.wraps(original)
            def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
                if not torch.is_grad_enabled():
                    return original(module, *args, **kwargs)
                if hooks._spent and not hooks._passes:
                    hooks._leave(drop_empty_hooks, hooks._spent)
                token = hooks._enter(tracker.forward_begin)
                try:
                    return original(module, *args, **kwargs)
                finally:
                    hooks._leave(tracker.forward_end, token)

            return forward

        self._replace(ddp, "__init__", wrap_init)
        self._replace(ddp, "forward", wrap_forward)
        self._replace(ddp, "_sync_buffers", self._wrap_collective)

    # -- collectives -----------------------------------------------------------------------------

    def _hook_collectives(self, torch: Any) -> None:
        dist = torch.distributed
        if not dist.is_available():
            return
        module = dist.distributed_c10d
        for name in COLLECTIVES:
            original = vars(module).get(name)
            if original is None:
                continue
            wrapper = self._wrap_collective(original)
            for owner in (module, dist):
                if vars(owner).get(name) is original:
                    self._replace(owner, name, functools.partial(_second, second=wrapper))
        self._replace(torch._C._distributed_c10d.Work, "wait", self._wrap_collective)
        for owner in (module, dist):
            self._replace(owner, "init_process_group", self._wrap_joining)
            self._replace(owner, "destroy_process_group", self._wrap_leaving)

    def _wrap_collective(self, original: Any) -> Any:
        hooks, tracker = self, self.tracker

        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            token = hooks._enter(tracker.collective_begin)
            try:
                return original(*args, **kwargs)
            finally:
                hooks._leave(tracker.collective_end, token)

        return collective

    def _wrap_joining(self, original: Any) -> Any:
        """Who has joined the others is a rank: from here on its uncaught exception is worth a
        note."""
        hooks, tracker = self, self.tracker

        @functools.wraps(original)
        def join(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            hooks._enter(lambda: int(tracker.recorder.is_ready()))
            return result

        return join

    def _wrap_leaving(self, original: Any) -> Any:
        """Who leaves all the others has ended its loop."""
        hooks, tracker = self, self.tracker

        @functools.wraps(original)
        def leave(group: Any = None, *args: Any, **kwargs: Any) -> Any:
            if group is None:
                hooks._leave(tracker.flush)
                if not tracker.recorder.is_hand:
                    tracker.recorder.note_ended()
            return original(group, *args, **kwargs)

        return leave


class Watched:
    """The hook on a parameter's gradient. Holds nothing that a program would let go."""

    def __init__(self, parameter: Any, hook: Callable[[Any], None]) -> None:
        is_first = parameter._backward_hooks is None
        self._handle = parameter.register_hook(hook)
        self._parameter = weakref.ref(parameter)
        # References to the dictionary of hooks, if it is ours; more of them later: somebody else's.
        self._holders = sys.getrefcount(parameter._backward_hooks) if is_first else 0

    def end(self) -> None:
        self._handle.remove()

    def drop_empty(self) -> None:
        """PyTorch goes on wrapping every gradient for Python while a dictionary of hooks is there,
        be it empty. Not to be called in a backward pass, which walks over it."""
        parameter = self._parameter()
        if parameter is None or not self._holders or parameter._backward_hooks is None:
            return
        if sys.getrefcount(parameter._backward_hooks) > self._holders:
            return
        if not parameter._backward_hooks:
            parameter._backward_hooks = None


class LastGradients:
    """Watches which gradients of a DDP module are ready last: all of them in the first passes, then
    the last two."""

    def __init__(
        self, tracker: Tracker, unserializable: Callable[[Any], Any], spent: List[Watched]
    ) -> None:
        self._tracker = tracker
        self._unserializable = unserializable
        self._spent = spent
        self._seen: List[Tuple[int, int]] = []  # (when, index) of this pass
        self._watched: Dict[int, Watched] = {}
        self._passes = 0
        self._scores: Dict[int, int] = {}
        self._ready = 0  # of the pass that is under way, once learning is over
        self._pass = 0

    def start(self, module: Any) -> None:
        parameters = [p for p in module.parameters() if p.requires_grad][:WATCHED_MAX]
        for index, parameter in enumerate(parameters):
            self._watched[index] = Watched(parameter, self._learner(index))

    def stop(self) -> None:
        self._keep([])
        drop_empty_hooks(self._spent)

    def _keep(self, indices: List[int]) -> None:
        """Watch these and no others."""
        for index in [index for index in self._watched if index not in indices]:
            watched = self._watched.pop(index)
            watched.end()
            self._spent.append(watched)

    def _learner(self, index: int) -> Callable[[Any], None]:
        tracker = self._tracker

        def ready(_: Any) -> None:
            tracker.last_gradient = now = time.monotonic_ns()
            if self._passes < LEARNING_PASSES:
                self._learn(index, now)
                return
            if self._pass != tracker.passes:
                self._pass, self._ready = tracker.passes, 0
            self._ready += 1
            if self._ready == len(self._watched):
                tracker.gradients_ready()

        marked: Callable[[Any], None] = self._unserializable(ready)
        return marked

    def _learn(self, index: int, now: int) -> None:
        if any(
            index == earlier for _, earlier in self._seen[:1]
        ):  # the first one again: a new pass
            self._close_pass()
        self._seen.append((now, index))

    def _close_pass(self) -> None:
        order = [index for _, index in self._seen]
        for place, index in enumerate(reversed(order)):
            self._scores[index] = min(self._scores.get(index, place), place)
        self._seen = []
        self._passes += 1
        if self._passes >= LEARNING_PASSES:
            self._keep(sorted(self._scores, key=lambda index: self._scores[index])[:LAST_GRADIENTS])


def drop_empty_hooks(spent: List[Watched]) -> None:
    while spent:
        spent.pop().drop_empty()


def _known_to_scripts(original: Any, wrapper: Any) -> Callable[[], None]:
    """TorchScript finds some functions by their identity: a wrapper stands for what it wraps.
    Returns what takes it out again."""
    builtins = sys.modules.get("torch.jit._builtins")
    try:
        table = builtins._get_builtin_table()  # type: ignore[union-attr]
        if id(original) in table:
            table[id(wrapper)] = table[id(original)]

            def forget() -> None:
                table.pop(id(wrapper), None)

            return forget
    except Exception:
        pass  # another PyTorch: scripts that call such a function are compiled as it does
    return lambda: None


def _weak_call(method: Callable[[], None]) -> Callable[[], None]:
    """Calls the method if its object is still there."""
    weak = weakref.WeakMethod(method)

    def call() -> None:
        bound = weak()
        if bound is not None:
            bound()

    return call


def _second(_: Any, second: Any) -> Any:
    return second


def batch_size(batch: Any, tensor_type: Any, depth: int = 4) -> Optional[int]:
    """The first dimension of the first tensor in a batch that a loader has collated. What a class
    of the program's own would answer is not asked: asking may change it."""
    try:
        for _ in range(depth):
            kind = type(batch)
            if kind is tensor_type:
                shape = batch.shape
                return int(shape[0]) if len(shape) else None
            if kind is list or (isinstance(batch, tuple) and kind.__getitem__ is tuple.__getitem__):
                batch = batch[0]
            elif kind is dict:
                batch = next(iter(batch.values()))
            else:
                return None
    except Exception:
        pass  # an empty one
    return None


def loss_of(tensors: Any, tensor_type: Any) -> float:
    """The number that a backward pass starts from, where it can be had without waiting for a
    device."""
    try:
        tensor = tensors[0] if type(tensors) in (list, tuple) else tensors
        if type(tensor) is tensor_type and tensor.is_cpu:
            return float(tensor.item())  # raises if there are several
    except Exception:
        pass
    return _NAN


_active: Optional[Hooks] = None  # of this process


def start(torch: Any) -> None:
    """Hook `torch`, once a process."""
    global _active
    if _active is not None:
        return
    tracker = Tracker(recorder)
    _active = Hooks(tracker)
    _active.install(torch)
    recorder.before_end.append(tracker.flush)
    os.register_at_fork(after_in_child=tracker.reset)


def stop() -> None:
    """Take every hook out again."""
    global _active
    if _active is not None:
        _active.uninstall()
        _active = None
