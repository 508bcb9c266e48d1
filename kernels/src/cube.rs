//! What the CubeCL implementations share: buffers, element types, work distribution.

use burn::backend::TensorMetadata;
use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::{CubeCountSelection, Handle};

/// Shared memory a kernel may plan with, in bytes: what every CUDA device grants without asking for more.
const SHARED_MEMORY: usize = 48 << 10;

/// Limits of a device that decide how a kernel is cut into cubes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Units of a cube; the number of cores on CubeCL's CPU runtime.
    pub(crate) units: usize,
    /// Shared memory in f32 numbers.
    pub(crate) shared: usize,
}

impl Limits {
    pub(crate) fn of(client: &Client) -> Limits {
        let hardware = &client.properties().hardware;
        Limits {
            units: hardware.max_units_per_cube as usize,
            shared: hardware.max_shared_memory_size.min(SHARED_MEMORY) / size_of::<f32>(),
        }
    }

    /// Whether cubes are wide enough for a GPU's tiles. CubeCL's CPU runtime has a unit per core.
    pub(crate) fn wide(self) -> bool {
        self.units >= 64
    }

    /// Units along one axis where cubes are narrow: a power of two, so that it divides every tile.
    pub(crate) fn narrow_units(self) -> usize {
        let units = self.units.clamp(1, 8);
        if units.is_power_of_two() { units } else { units.next_power_of_two() / 2 }
    }
}

/// A contiguous tensor.
pub(crate) fn dense(t: CubeTensor) -> CubeTensor {
    into_contiguous(t)
}

/// Contiguous and of the given type. Kernels read bytes as the type they were compiled for and check nothing.
pub(crate) fn dense_as(t: CubeTensor, dtype: DType) -> CubeTensor {
    cast(into_contiguous(t), dtype)
}

/// The same numbers in another type.
pub(crate) fn cast(t: CubeTensor, dtype: DType) -> CubeTensor {
    if t.dtype == dtype { t } else { burn_cubecl::kernel::cast(t, dtype) }
}

/// An uninitialised tensor on the device of `like`.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::from(shape), dtype)
}

/// Zeros on the device of `like`.
pub(crate) fn zeros<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
    zeros_client(like.client.clone(), like.device.clone(), Shape::from(shape), dtype)
}

/// The tensor as a kernel argument.
pub(crate) fn arg(t: &CubeTensor) -> BufferArg {
    t.clone().into_buffer_arg()
}

/// The element type a kernel is compiled for.
pub(crate) fn element(dtype: DType) -> ElemType {
    dtype_to_storage_type(dtype)
}

/// Host numbers as a device buffer that a kernel takes by [`Numbers::arg`].
pub(crate) struct Numbers {
    handle: Handle,
    length: usize,
}

impl Numbers {
    pub(crate) fn i32(client: &Client, values: &[i32]) -> Numbers {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Numbers { handle: client.create_from_slice(&bytes), length: values.len() }
    }

    pub(crate) fn u32(client: &Client, values: &[u32]) -> Numbers {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Numbers { handle: client.create_from_slice(&bytes), length: values.len() }
    }

    pub(crate) fn arg(&self) -> BufferArg {
        // SAFETY: the buffer was made from exactly this many numbers.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.length) }
    }
}

/// A count of at least `cubes`, folded so that no axis passes the device's limit. Kernels skip cubes beyond `cubes`.
pub(crate) fn cube_count(client: &Client, cubes: usize) -> CubeCount {
    let cubes = u32::try_from(cubes).expect("cubes are counted from tiles of tensors that fit the device");
    CubeCountSelection::new(client, cubes).cube_count()
}

/// The shape, when the rank is known.
pub(crate) fn dims<const D: usize>(t: &CubeTensor) -> [usize; D] {
    t.shape().dims()
}

/// Part `index` of the first axis.
pub(crate) fn part(t: CubeTensor, range: std::ops::Range<usize>) -> CubeTensor {
    use burn::backend::ops::FloatTensorOps;
    let slice = burn::tensor::Slice::from(range);
    CubeBackend::float_slice(t, &[slice])
}
