//! A store that wraps another one, and changes only some of its methods.

/// Methods of a store that call those of the store in a field: `passes_on!(inner: inbox, publish)`.
#[doc(hidden)]
#[macro_export]
macro_rules! passes_on {
    ($to:tt: $($method:ident),+) => { $($crate::passes_on! { @$method $to })+ };
    (@fn $to:tt $name:ident($($arg:ident: $kind:ty),*) $out:ty) => {
        fn $name(&self, $($arg: $kind),*) -> $out { self.$to.$name($($arg),*) }
    };
    (@soon $to:tt $name:ident($($arg:ident: $kind:ty),*) $out:ty) => {
        fn $name(
            &self,
            $($arg: $kind),*
        ) -> leasehold::store::protocol::BoxFuture<
            '_, ::std::result::Result<$out, leasehold::error::StoreError>
        > { self.$to.$name($($arg),*) }
    };
    (@capabilities $to:tt) => {
        $crate::passes_on! { @fn $to capabilities() leasehold::store::Capabilities }
    };
    (@clock_offset $to:tt) => {
        $crate::passes_on! { @fn $to clock_offset() ::std::time::Duration }
    };
    (@end_quarantine $to:tt) => { $crate::passes_on! { @soon $to end_quarantine() bool } };
    (@execute $to:tt) => {
        $crate::passes_on! { @soon $to execute(operation: leasehold::store::protocol::Operation)
            leasehold::store::protocol::Answer }
    };
    (@forget $to:tt) => {
        $crate::passes_on! { @fn $to forget(client: leasehold::admin::ClientId) () }
    };
    (@inbox $to:tt) => {
        $crate::passes_on! { @soon $to inbox(client: leasehold::admin::ClientId)
            Box<dyn leasehold::store::Inbox> }
    };
    (@lifeline $to:tt) => {
        $crate::passes_on! { @fn $to lifeline(client: leasehold::admin::ClientId)
            Option<::std::os::fd::OwnedFd> }
    };
    (@prepare $to:tt) => {
        $crate::passes_on! { @fn $to prepare()
            Option<leasehold::store::protocol::BoxFuture<'_, ()>> }
    };
    (@publish $to:tt) => {
        $crate::passes_on! { @soon $to publish(name: &leasehold::LockName, message: &str) () }
    };
    (@shard $to:tt) => { $crate::passes_on! { @fn $to shard(name: &leasehold::LockName) u64 } };
    (@subscribe $to:tt) => {
        $crate::passes_on! { @soon $to subscribe(name: &leasehold::LockName)
            Option<Box<dyn leasehold::store::Subscription>> }
    };
    (@warnings $to:tt) => { $crate::passes_on! { @fn $to warnings() Vec<String> } };
}
