//! Blocking methods, each of which calls the async method of the same name and waits for it.

/// Makes methods for a type with the fields `driver` and `inner`. The type of `inner` is named
/// first. The word before each method says what the method does:
///
/// - `get` calls the method of `inner`; `check` does, too, and may fail;
/// - `set` returns `self` with a changed `inner`;
/// - `make` returns the blocking form of the value that `inner` returns;
/// - `wait` and `wait_mut` wait for the method of `inner`;
/// - `hold` waits for the method of `inner`, and returns the blocking form of its value.
///
/// It is exported for other crates with blocking forms, and is not part of the public API.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward {
    ($of:literal { $($how:ident $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?;)+ }) => {$(
        $crate::__forward!(@$how concat!("Like [`", $of, "::", stringify!($name), "`]."),
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
        /// The same as the async method.
        pub fn $name(&self $(, $arg: $kind)*) -> $out {
            self.inner.$name($($arg),*)
        }
    };
    (@wait $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// The same as the async method.
        pub fn $name(&self $(, $arg: $kind)*) -> $out {
            self.driver.wait(self.inner.$name($($arg),*))
        }
    };
    (@wait_mut $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// The same as the async method.
        pub fn $name(&mut self $(, $arg: $kind)*) -> $out {
            self.driver.wait(self.inner.$name($($arg),*))
        }
    };
    (@hold $doc:expr, $name:ident($($arg:ident: $kind:ty),*) -> $out:ty) => {
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// The same as the async method.
        pub fn $name(&self $(, $arg: $kind)*) -> $crate::Result<$out> {
            Ok(<$out>::new(self.driver.wait(self.inner.$name($($arg),*))?, &self.driver))
        }
    };
}

pub(crate) use __forward as forward;
