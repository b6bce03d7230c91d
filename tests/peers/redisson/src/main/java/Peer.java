import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.Protocol;

/**
 * A program that shares a lock with leasehold, through Redisson.
 *
 * Peer PLACE NAME WATCHDOG_MS, where PLACE is `one PORT [resp3]`, `cluster PORT` or `sentinel PORT
 * SERVICE` with commas between its parts: does what each line on stdin says, and answers on stdout.
 * KIND is lock, fenced, read or write, and a TTL_MS of 0 leaves the lease to the watchdog.
 *   acquire KIND TTL_MS        waits for the lock        -> acquired
 *   token TTL_MS               waits for a fenced lock   -> its token
 *   try KIND                   takes it if it is free    -> acquired or busy
 *   release                    lets go                   -> released, or refused if it is not its own
 *   force KIND                 ends whatever hold there is -> forced or free
 *   held                       is it still its own       -> held or lost
 *   add KIND COUNTER ROUNDS THREADS
 *                              adds 1 so many times in each thread, reading and writing under the
 *                              lock                      -> added
 *   look COUNTER ROUNDS THREADS
 *                              reads under the read lock, and nobody writes then -> looked
 *   id                         what its owners begin with -> the id of this client
 *   as THREAD lock KIND LEASE_MS, as THREAD unlock KIND
 *                              takes it if it is free, or lets go, as if in this thread -> yes or no
 */
public final class Peer {
    private static RedissonClient client;
    private static String name;

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // its other threads would keep the test waiting
        });
        name = args[1];
        client = Redisson.create(config(args[0].split(","), Long.parseLong(args[2])));
        RLock held = null;
        say("ready");
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "acquire" -> {
                    held = lock(words[1]);
                    acquire(held, Long.parseLong(words[2]));
                    say("acquired");
                }
                case "token" -> {
                    RFencedLock fenced = client.getFencedLock(name);
                    held = fenced;
                    // lockAndGetToken(lease, unit) of 4.7.0 leaves the lease out.
                    long ttl = Long.parseLong(words[1]);
                    long ever = TimeUnit.DAYS.toMillis(1);
                    say("" + (ttl == 0
                        ? fenced.lockAndGetToken()
                        : fenced.tryLockAndGetToken(ever, ttl, TimeUnit.MILLISECONDS)));
                }
                case "try" -> {
                    RLock lock = lock(words[1]);
                    boolean acquired = known(lock::tryLock);
                    held = acquired ? lock : held;
                    say(acquired ? "acquired" : "busy");
                }
                case "release" -> say(release(held));
                case "force" -> say(lock(words[1]).forceUnlock() ? "forced" : "free");
                case "held" -> say(held.isHeldByCurrentThread() ? "held" : "lost");
                case "add" -> {
                    int rounds = Integer.parseInt(words[3]);
                    inThreads(Integer.parseInt(words[4]), () -> add(words[1], words[2], rounds));
                    say("added");
                }
                case "look" -> {
                    int rounds = Integer.parseInt(words[2]);
                    inThreads(Integer.parseInt(words[3]), () -> look(words[1], rounds));
                    say("looked");
                }
                case "id" -> say(client.getId());
                case "as" -> say(as(Long.parseLong(words[1]), words) ? "yes" : "no");
                default -> throw new IllegalArgumentException(line);
            }
        }
        // Whoever started us has ended.
        Runtime.getRuntime().halt(0);
    }

    /// Asks again where 4.7.0 does not know yet which server a slot has moved to.
    private static <T> T known(Supplier<T> question) throws InterruptedException {
        while (true) {
            try {
                return question.get();
            } catch (RedisException error) {
                if (!(error.getCause() instanceof NullPointerException)) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }

    private static Config config(String[] place, long watchdog) {
        var config = new Config();
        config.setLockWatchdogTimeout(watchdog);
        config.setNettyThreads(4).setThreads(4);
        if (List.of(place).contains("resp3")) {
            config.setProtocol(Protocol.RESP3);
        }
        var address = "redis://127.0.0.1:" + place[1];
        switch (place[0]) {
            case "one" -> config.useSingleServer().setAddress(address)
                .setConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
            case "cluster" -> config.useClusterServers().addNodeAddress(address)
                .setScanInterval(500)
                .setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1);
            case "sentinel" -> config.useSentinelServers().addSentinelAddress(address)
                .setMasterName(place[2]).setCheckSentinelsList(false).setScanInterval(500)
                .setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1);
            default -> throw new IllegalArgumentException(place[0]);
        }
        return config;
    }

    private static RLock lock(String kind) {
        return switch (kind) {
            case "lock" -> client.getLock(name);
            case "fenced" -> client.getFencedLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private static void acquire(RLock lock, long ttl) {
        if (ttl == 0) {
            lock.lock();
        } else {
            lock.lock(ttl, TimeUnit.MILLISECONDS);
        }
    }

    private static String release(RLock held) throws InterruptedException {
        try {
            return known(() -> {
                held.unlock();
                return "released";
            });
        } catch (IllegalMonitorStateException refused) {
            return "refused";
        }
    }

    private static boolean as(long thread, String[] words) throws Exception {
        RLock lock = lock(words[3]);
        if (words[2].equals("lock")) {
            long lease = Long.parseLong(words[4]);
            return lock.tryLockAsync(0, lease, TimeUnit.MILLISECONDS, thread).get();
        }
        try {
            lock.unlockAsync(thread).get();
            return true;
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof IllegalMonitorStateException) {
                return false;
            }
            throw refused;
        }
    }

    private static void add(String kind, String counter, int rounds) {
        RLock lock = lock(kind);
        RBucket<String> value = client.getBucket(counter, StringCodec.INSTANCE);
        RAtomicLong inside = client.getAtomicLong(counter + ":inside");
        for (int round = 0; round < rounds; round++) {
            lock.lock();
            long holders = inside.incrementAndGet();
            check(holders == 1, holders + " hold the lock");
            var before = value.get();
            value.set("" + (before == null ? 1 : Long.parseLong(before) + 1));
            inside.decrementAndGet();
            lock.unlock();
        }
    }

    private static void look(String counter, int rounds) {
        RLock lock = lock("read");
        RBucket<String> value = client.getBucket(counter, StringCodec.INSTANCE);
        RAtomicLong inside = client.getAtomicLong(counter + ":inside");
        for (int round = 0; round < rounds; round++) {
            lock.lock();
            var before = value.get();
            long writers = inside.get();
            check(writers == 0, writers + " write beside a reader");
            var after = value.get();
            check(before == null ? after == null : before.equals(after), "it was written");
            lock.unlock();
        }
    }

    private static void inThreads(int count, Runnable work) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            var thread = new Thread(work);
            thread.setUncaughtExceptionHandler((of, failure) -> {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            });
            thread.start();
            threads.add(thread);
        }
        for (var thread : threads) {
            thread.join();
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    private static void say(String word) {
        System.out.println("@@ " + word);
        System.out.flush();
    }
}
