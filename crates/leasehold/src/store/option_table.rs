//! The table of the options of a store on a server, with one row for each. A row gives the setter,
//! the option of a store URL, its range, its row in the manual and its name in errors.

/// Makes `Settings`, the setters of `$options` and `TABLE`.
///
/// First come the fields that are not options of a URL, with their first values; the caller of
/// `Settings::of` gives `servers`. Then comes a row for each option: `name: type of the field =
/// default; (argument of the setter) => value of the field, made from the argument`. A span
/// of time then has its allowed range. The row ends with the meaning of the option, and its default
/// in the words of the manual.
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
        /// All settings.
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

            /// Reads the value of one option of a store URL.
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

        /// The setters of the options that a store URL also has.
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

        /// The name of each option, its meaning and its default.
        const TABLE: &[[&str; 3]] = &[$([stringify!($name), $meaning, $shown]),+];
    };
}

/// Asserts that the rows of a manual are those of a table.
#[cfg(test)]
pub(super) fn assert_told(manual: &str, table: &[[&str; 3]]) {
    let (_, section) = manual.split_once("\n## Options\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |[name, meaning, shown]: &[&str; 3]| format!("| `{name}` | {meaning} | {shown} |");
    assert_eq!(rows, table.iter().map(row).collect::<Vec<_>>());
}

pub(super) use option_table;
