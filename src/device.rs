//! Devices by name: one binary, the device is a value.

use burn::tensor::Device;

/// A device as `--device` and recipes name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The pure-Rust CPU backend.
    Flex,
    /// An NVIDIA GPU.
    Cuda(usize),
    /// A GPU through Vulkan.
    Vulkan,
    /// A GPU through WebGPU.
    Wgpu,
    /// CubeCL's CPU runtime.
    Cpu,
}

impl DeviceChoice {
    /// Reads `flex`, `cuda`, `cuda:1`, `vulkan`, `wgpu` or `cpu`.
    ///
    /// # Errors
    /// For anything else, and for a device this build was made without; the message says how to build with it.
    pub fn parse(name: &str) -> Result<DeviceChoice, String> {
        let choice = match name.split_once(':') {
            None => match name {
                "flex" => DeviceChoice::Flex,
                "cuda" => DeviceChoice::Cuda(0),
                "vulkan" => DeviceChoice::Vulkan,
                "wgpu" => DeviceChoice::Wgpu,
                "cpu" => DeviceChoice::Cpu,
                _ => return Err("unknown device; expected flex, cuda, cuda:N, vulkan, wgpu or cpu".into()),
            },
            Some(("cuda", index)) => {
                let index =
                    index.parse().map_err(|_| format!("\"{index}\" is not a GPU number; expected cuda:0, cuda:1 …"))?;
                DeviceChoice::Cuda(index)
            }
            Some(_) => return Err("unknown device; expected flex, cuda, cuda:N, vulkan, wgpu or cpu".into()),
        };
        let missing = match choice {
            DeviceChoice::Cuda(_) if !cfg!(feature = "cuda") => "cuda",
            DeviceChoice::Vulkan if !cfg!(feature = "vulkan") => "vulkan",
            DeviceChoice::Wgpu if !cfg!(feature = "wgpu") => "wgpu",
            DeviceChoice::Cpu if !cfg!(feature = "cpu") => "cpu",
            _ => return Ok(choice),
        };
        Err(format!("this build has no {missing} support; build with `cargo build --release --features {missing}`"))
    }

    /// Opens the device.
    pub fn open(self) -> Device {
        match self {
            DeviceChoice::Flex => Device::flex(),
            #[cfg(feature = "cuda")]
            DeviceChoice::Cuda(index) => Device::cuda(index),
            #[cfg(feature = "vulkan")]
            DeviceChoice::Vulkan => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
            #[cfg(feature = "wgpu")]
            DeviceChoice::Wgpu => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
            #[cfg(feature = "cpu")]
            DeviceChoice::Cpu => Device::cpu(),
            #[allow(unreachable_patterns)]
            other => unreachable!("{other:?} is refused by parse in this build"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_missing_features_explained() {
        assert_eq!(DeviceChoice::parse("flex"), Ok(DeviceChoice::Flex));
        assert!(DeviceChoice::parse("gpu").unwrap_err().contains("expected flex"));
        assert!(DeviceChoice::parse("cuda:x").unwrap_err().contains("GPU number"));
        if !cfg!(feature = "cuda") {
            assert!(DeviceChoice::parse("cuda:1").unwrap_err().contains("--features cuda"));
        }
    }
}
