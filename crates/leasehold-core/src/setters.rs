//! Macros for methods that many types have: setters for structs that may get more fields, so that
//! other crates can still build them, and the names of the variants of enums.

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

/// Makes `as_str`, which names each variant, and a list of these names.
macro_rules! words {
    ($($variant:pat => $word:literal),+ $(,)?) => {
        /// All words that [`as_str`](Self::as_str) returns, in alphabetical order.
        pub const WORDS: &'static [&'static str] = &[$($word),+];

        /// The name of the variant without its numbers: one of a few words, for logs and metrics.
        pub const fn as_str(self) -> &'static str {
            match self {
                $($variant => $word,)+
            }
        }
    };
}

pub(crate) use setters;
pub(crate) use words;
