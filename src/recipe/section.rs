/// What the reference and the key check know about one key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name within its section.
    pub name: &'static str,
    /// Rust type, which names the kind of value.
    pub kind: &'static str,
    /// Default, as TOML.
    pub default: fn() -> String,
    /// What it means.
    pub doc: &'static [&'static str],
}

/// Defines a recipe section: a struct whose every field has a documentation comment, a type and a default, and the
/// table of [`Key`]s that the reference and the unknown-key check are made from. A key is described once, here.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $name:ident {
            $( $(#[doc = $doc:literal])* $field:ident : $kind:ty = $default:expr, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $kind, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )* }
            }
        }

        impl $name {
            /// The section's keys, in order.
            pub const KEYS: &'static [$crate::recipe::Key] = &[
                $( $crate::recipe::Key {
                    name: stringify!($field),
                    kind: stringify!($kind),
                    default: || {
                        let value: $kind = $default;
                        $crate::recipe::to_toml(&value)
                    },
                    doc: &[$($doc),*],
                }, )*
            ];
            /// What the section is about.
            pub const ABOUT: &'static [&'static str] = &[$($about),*];
        }
    };
}

pub(crate) use section;
