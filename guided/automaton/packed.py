"""Named tuples of arrays that kernels take as one pointer; knows no kernel.

Numba takes a named tuple of arrays apart: each call of a kernel from Python looks at every array, and each call from kernel to kernel
passes all their addresses, shapes and strides on the stack. For an automaton that is a kilobyte, and takes longer than most of these
calls' work. A `packed` tuple is passed as the address of a table instead, from which compiled code reads where an array is when it
uses it. Loops that run long keep the arrays they use in variables.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

_WORDS = 4  # of an array in the table: its address, then its shape
_WORD = ir.IntType(64)
_ANYTHING = ctypes.c_char * 0
Cls = TypeVar("Cls", bound=type)


def packed(cls: Cls) -> Cls:
    """Has kernels take tuples of this class as one pointer: contiguous arrays of at most three dimensions, types always the same."""
    return type(cls.__name__, (_Packed, cls), {"__module__": cls.__module__, "__doc__": cls.__doc__})  # type: ignore[return-value]


def nbytes(arrays: Any) -> int:
    """Bytes of all arrays of a packed tuple."""
    return arrays._nbytes


class _Packed:
    """What a packed class has besides its fields, which never change, so the addresses hold for as long as the tuple lives."""

    @cached_property
    def _table(self) -> ctypes.Array[ctypes.c_int64]:
        words = [word for array in self for word in _words(array)]  # type: ignore[attr-defined]
        return (ctypes.c_int64 * len(words))(*words)

    @cached_property
    def address(self) -> int:
        """Where the table is."""
        return ctypes.addressof(self._table)

    @cached_property
    def _nbytes(self) -> int:
        return sum(array.nbytes for array in self)  # type: ignore[attr-defined]

    def _replace(self, **arrays: np.ndarray) -> Any:
        """As of any named tuple; the same tuple where all arrays are the same."""
        changed = {name: array for name, array in arrays.items() if array is not getattr(self, name)}
        if not changed:
            return self
        other = super()._replace(**changed)  # type: ignore[misc]
        if "_table" in self.__dict__:  # else no kernel has asked for it yet
            other._table = type(self._table).from_buffer_copy(self._table)
            for name, array in changed.items():
                place = _WORDS * self._fields.index(name)  # type: ignore[attr-defined]
                other._table[place : place + _WORDS] = _words(array)
        return other


def _words(array: np.ndarray) -> list[int]:
    """Address and shape. Raises TypeError for an array that is not contiguous or must not be written to."""
    shape = array.shape + (0,) * (_WORDS - 1 - array.ndim)
    return [ctypes.addressof(_ANYTHING.from_buffer(array)), *shape]  # type: ignore[arg-type]


class _PackedType(types.Type):
    def __init__(self, name: str, fields: tuple[tuple[str, types.Array], ...]) -> None:
        self.fields = fields
        super().__init__(name=f"{name}({', '.join(f'{field}: {array}' for field, array in fields)})")


@typeof_impl.register(_Packed)
def _typeof(value: Any, context: Any) -> _PackedType:
    arrays = zip(value._fields, value, strict=True)
    fields = tuple((field, types.Array(from_dtype(array.dtype), array.ndim, "C")) for field, array in arrays)
    return _PackedType(type(value).__name__, fields)


@register_model(_PackedType)
class _PackedModel(models.PrimitiveModel):
    def __init__(self, manager: Any, packed_type: _PackedType) -> None:
        super().__init__(manager, packed_type, _WORD.as_pointer())


@infer_getattr
class _PackedFields(AttributeTemplate):
    key = _PackedType

    def generic_resolve(self, packed_type: _PackedType, field: str) -> types.Array | None:
        return dict(packed_type.fields).get(field)


@lower_getattr_generic(_PackedType)
def _lower_field(context: Any, builder: Any, packed_type: _PackedType, table: Any, field: str) -> Any:
    """An array that owns nothing, as the table says."""
    place = [name for name, _ in packed_type.fields].index(field)
    array_type = packed_type.fields[place][1]

    def word(number: int) -> Any:
        return builder.load(builder.gep(table, [ir.Constant(_WORD, _WORDS * place + number)]))

    shape = [word(1 + dimension) for dimension in range(array_type.ndim)]
    itemsize = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    strides = [ir.Constant(_WORD, itemsize)]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(array_type)(context, builder)
    populate_array(
        array,
        data=builder.inttoptr(word(0), context.get_value_type(array_type.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


@unbox(_PackedType)
def _unbox(packed_type: _PackedType, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    failed = cgutils.is_null(c.builder, address)
    table = cgutils.alloca_once_value(c.builder, ir.Constant(_WORD.as_pointer(), None))
    with c.builder.if_then(c.builder.not_(failed)):
        c.builder.store(c.builder.bitcast(c.pyapi.long_as_voidptr(address), _WORD.as_pointer()), table)
        c.pyapi.decref(address)
    return NativeValue(c.builder.load(table), is_error=failed)
