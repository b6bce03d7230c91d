//! Methods without async, each of which calls that of the same name and waits for it.

/// Methods for a type with the fields `inner`, of the type named first, and `driver`. The word
/// before each says what it does:
///
/// - `get` calls that of `inner`; `check` does, and may fail;
/// - `set` gives this with what it makes of `inner`;
/// - `make` gives the blocking form of what it returns;
/// - `wait` and `wait_mut` wait for it;
/// - `hold` waits for it, and gives the blocking form of what it returns.
///
/// It is exported for crates with blocking forms beside these, and no public API.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward {
    ($of:literal { $($how:ident $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?;)+ }) => {$(
        $crate::__forward!(@$how concat!("As [`", $of, "::", stringify!($name), "`]."),
            $name($($arg: $kind),*) $(-> $out)?);
    )+};
    (@get $doc:expr, $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?) => {
        #[doc = $doc]
        pub fn $name(&self $(, $arg: $kind)*) $(-> $out)? {
            self.inner.$name($($arg),*)
        }
    };
    (@set $doc:expr, $name:ident($($arg:ident: $kind:ty),*)) => {
        #[doc = $doc]
        pub fn $name(self $(, $arg: $kind)*) -> Self {
            Self { inner: self.inner.$name($($arg),*), driver: self.driver }
        }
    };
    (@make $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        pub fn $name(&self $(, $arg: $kind)*) -> $out {
            <$out>::new(self.inner.$name($($arg),*), &self.driver)
        }
    };
    (@check $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// As there.
        pub fn $name(&self $(, $arg: $kind)*) -> $out {
            self.inner.$name($($arg),*)
        }
    };
    (@wait $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// As there.
        pub fn $name(&self $(, $arg: $kind)*) -> $out {
            self.driver.wait(self.inner.$name($($arg),*))
        }
    };
    (@wait_mut $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// As there.
        pub fn $name(&mut self $(, $arg: $kind)*) -> $out {
            self.driver.wait(self.inner.$name($($arg),*))
        }
    };
    (@hold $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// As there.
        pub fn $name(&self $(, $arg: $kind)*) -> $crate::Result<$out> {
            Ok(<$out>::new(self.driver.wait(self.inner.$name($($arg),*))?, &self.driver))
        }
    };
}

pub(crate) use __forward as forward;
