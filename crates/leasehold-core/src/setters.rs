//! Setters for structs that may get more fields, so that other crates can still build them.

/// Makes a method `with_FIELD` for each field, which returns the value with that field changed.
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
