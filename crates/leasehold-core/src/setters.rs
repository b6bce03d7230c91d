//! Setters for structs that may grow, so that other crates can build them all the same.

/// For each field a `with_FIELD` that gives the value with another one.
macro_rules! setters {
    ($($setter:ident: $field:ident: $kind:ty),+ $(,)?) => {
        $(
            #[doc = concat!("The same with this [`", stringify!($field), "`](#structfield.",
                stringify!($field), ").")]
            #[must_use]
            pub fn $setter(mut self, $field: $kind) -> Self {
                self.$field = $field;
                self
            }
        )+
    };
}

pub(crate) use setters;
