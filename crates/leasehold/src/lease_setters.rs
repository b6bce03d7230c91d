//! Setters for the options of a lease, on the types that ask for one.

/// A setter for each option of [`LeaseOptions`](crate::LeaseOptions) except the label, for a type
/// that has a method `with`, which changes its options.
macro_rules! lease_setters {
    () => {
        /// Replaces all options.
        pub fn options(self, options: leasehold_core::LeaseOptions) -> Self {
            self.with(|own| *own = options)
        }

        /// How long the store is asked to keep the lease: 100 ms to 24 h. If the holder crashes,
        /// others wait for the rest of this time.
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            self.with(|options| options.ttl = ttl)
        }

        /// Chooses who renews the lease. If nothing renews it, a grant that leaves less than half
        /// of the ttl is given back.
        pub fn renewal(self, renewal: leasehold_core::Renewal) -> Self {
            self.with(|options| options.renewal = renewal)
        }

        /// The lease is lost after this time, counted from the grant, even if its holder is
        /// healthy.
        pub fn max_hold(self, limit: std::time::Duration) -> Self {
            self.with(|options| options.max_hold = Some(limit))
        }

        /// The name stays taken for at least this long from the grant, even if it is released
        /// before: the rest is its *cooldown*, in which nobody holds it. Zero by default, at most
        /// 24 h. If the holder dies, or no request of its release reaches the store, the name is
        /// free when the lease ends.
        pub fn min_hold(self, least: std::time::Duration) -> Self {
            self.with(|options| options.min_hold = Some(least))
        }

        /// The store remembers the last holder of the name for at least this long, counted from the
        /// request. So an operator sees when a job ran last, or that it did not run. The default is
        /// the retention of the store, 2 min; the limit is 366 days.
        ///
        /// Until then, the server keeps the record of the name: some 300 bytes. Layouts that are
        /// shared with programs in other languages have no such record, and refuse the request.
        pub fn remember(self, span: std::time::Duration) -> Self {
            self.with(|options| options.remember = Some(span))
        }
    };
}

pub(crate) use lease_setters;
