//! The table of the options of a store on a server, each once. The macro makes from a row: the
//! setter, the option of a store URL, its range, its row in the manual, its name in refusals.

/// Makes `Settings`, the setters of `$options` and `TABLE`.
///
/// First stand the fields that a URL does not have as options, with what they begin as; `servers`
/// is given. Then a row for each option, `name: field = default; (argument of the setter) => the
/// field from it`, the range of a span, what the option is, and its default in the words of the
/// manual.
macro_rules! option_table {
    (
        $options:ident at $servers:ty;
        beside { $($(#[doc = $about:literal])* $beside:ident: $type:ty = $first:expr;)+ }
        $(
            $(#[doc = $more:literal])*
            $name:ident: $field:ty = $default:expr; ($given:ident: $argument:ty) => $set:expr
            $(, within $range:expr)?;
            $meaning:literal, $shown:literal;
        )+
    ) => {
        /// Everything that may be asked for.
        #[derive(Clone, Debug)]
        pub(crate) struct Settings {
            pub(crate) servers: $servers,
            $($(#[doc = $about])* pub(crate) $beside: $type,)+
            $(#[doc = $meaning] pub(crate) $name: $field,)+
        }

        impl Settings {
            pub(crate) fn of(servers: $servers) -> Self {
                Self { servers, $($beside: $first,)+ $($name: $default,)+ }
            }

            /// Takes over what a store URL says of one option.
            pub(crate) fn read(
                &mut self,
                name: &str,
                text: String,
            ) -> Result<(), leasehold_core::InvalidInput> {
                match name {
                    $(stringify!($name) => {
                        self.$name = crate::store::option_value::Value::read(name, text)?;
                    })+
                    _ => return Err(crate::store::option_value::unknown(name, TABLE)),
                }
                Ok(())
            }

            /// Refuses spans that are out of range.
            pub(super) fn check_spans(&self) -> Result<(), leasehold_core::InvalidInput> {
                $($(crate::store::span::check(stringify!($name), self.$name, $range)?;)?)+
                Ok(())
            }
        }

        /// The options that a store URL has, too.
        impl $options {
            $(
                #[doc = concat!("The option `", stringify!($name), "`: ", $meaning, ".")]
                ///
                #[doc = concat!("Default: ", $shown, ".")]
                $(#[doc = $more])*
                pub fn $name(mut self, $given: $argument) -> Self {
                    self.0.$name = $set;
                    self
                }
            )+
        }

        /// The name of each, what it is, and its default.
        const TABLE: &[[&str; 3]] = &[$([stringify!($name), $meaning, $shown]),+];
    };
}

/// The rows of a manual are those of a table.
#[cfg(test)]
pub(super) fn assert_told(manual: &str, table: &[[&str; 3]]) {
    let (_, section) = manual.split_once("\n## Options\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |[name, meaning, shown]: &[&str; 3]| format!("| `{name}` | {meaning} | {shown} |");
    assert_eq!(rows, table.iter().map(row).collect::<Vec<_>>());
}

pub(super) use option_table;
