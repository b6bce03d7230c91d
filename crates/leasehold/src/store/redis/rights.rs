//! The smallest sufficient sets of rights, as `ACL SETUSER` takes them. The constants of
//! [`Redis`](super::Redis) say what each set is for.

pub(super) const HOLDER: &str = "resetkeys ~lh:* resetchannels &lh:inbox:* -@all \
    +evalsha +script|load +time +get +mget +set +del +exists +pttl +pexpire +incr +incrby \
    +hget +hmget +hset +hdel +zadd +zcard +zpopmin +zrange +zrank +zrem +zscore +lpos \
    +lrange +ltrim +rpush +multi +exec +publish +subscribe +ping +info";

pub(super) const CLUSTER: &str = "+asking +cluster|info +cluster|slots";

pub(super) const PLAIN: &str = "resetkeys ~lh:* resetchannels &lh:inbox:* -@all \
    +evalsha +script|load +time +getrange +set +del +pttl +pexpireat +pexpiretime +publish \
    +subscribe +ping +info";

pub(super) const REDISSON: &str = "resetkeys ~* resetchannels &lh:inbox:* \
    &redisson_lock__channel:* &redisson_rwlock:* -@all +evalsha +script|load +time +exists \
    +type +get +set +del +incr +hget +hmget +hgetall +hkeys +hrandfield +hlen +hset +hdel \
    +pttl +pexpireat +pexpiretime +publish +subscribe +spublish +ssubscribe +ping +info";

pub(super) const OPERATOR: &str = "+scan";

pub(super) const SENTINEL: &str = "resetkeys resetchannels &+switch-master -@all \
    +sentinel|get-master-addr-by-name +sentinel|master +subscribe";

pub(super) const REPLICAS: &str = "+wait +role";
