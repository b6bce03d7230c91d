import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.support.locks.DistributedLock;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/**
 * A program that shares a lock with leasehold, through what programs in Java have for it.
 *
 * Plain KIND PORT NAME, where KIND is jedis, shedlock or spring, and NAME has three parts with colons
 * between them: does what each line on stdin says, and answers on stdout.
 *   acquire TTL_MS       waits for the lock       -> acquired
 *   release              lets go                  -> released, or refused if it is not its own
 *   add COUNTER ROUNDS   adds 1 so many times, reading and writing under the lock -> added
 */
public final class Plain {
    /** For as long as a busy machine may take for a few requests. */
    private static final Duration LONG = Duration.ofMinutes(1);

    /** Between two tries, where the library does not wait by itself. */
    private static final long PAUSE_MS = 20;

    private interface Lock {
        void acquire(Duration ttl) throws InterruptedException;

        /** False if it was not its own; a library that does not tell says true. */
        boolean release();
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        var lock = switch (args[0]) {
            case "jedis" -> jedis(new Jedis("127.0.0.1", port), args[2]);
            case "shedlock" -> shedLock(spring(port), args[2].split(":"));
            case "spring" -> registry(spring(port), args[2]);
            default -> throw new IllegalArgumentException(args[0]);
        };
        var data = new Jedis("127.0.0.1", port);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "acquire" -> {
                    lock.acquire(Duration.ofMillis(Long.parseLong(words[1])));
                    say("acquired");
                }
                case "release" -> say(lock.release() ? "released" : "refused");
                case "add" -> {
                    for (int round = 0; round < Integer.parseInt(words[2]); round++) {
                        lock.acquire(LONG);
                        add(data, words[1]);
                        lock.release();
                    }
                    say("added");
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        // Whoever started us has ended.
        Runtime.getRuntime().halt(0);
    }

    private static RedisConnectionFactory spring(int port) {
        var factory = new LettuceConnectionFactory("127.0.0.1", port);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }

    /** What tutorials show: set if it is not there, compare and delete. */
    private static Lock jedis(Jedis jedis, String name) {
        return new Lock() {
            private String value;

            @Override
            public void acquire(Duration ttl) throws InterruptedException {
                value = UUID.randomUUID().toString();
                var once = SetParams.setParams().nx().px(ttl.toMillis());
                while (jedis.set(name, value, once) == null) {
                    Thread.sleep(PAUSE_MS);
                }
            }

            @Override
            public boolean release() {
                var compareAndDelete = "if redis.call('get', KEYS[1]) == ARGV[1] then "
                    + "return redis.call('del', KEYS[1]) else return 0 end";
                return jedis.eval(compareAndDelete, List.of(name), List.of(value)).equals(1L);
            }
        };
    }

    /** It never waits, and does not tell whose a lock was that it has released. */
    private static Lock shedLock(RedisConnectionFactory factory, String[] name) {
        LockProvider provider = new RedisLockProvider.Builder(factory)
            .keyPrefix(name[0]).environment(name[1]).safeUpdate(true).build();
        return new Lock() {
            private SimpleLock held;

            @Override
            public void acquire(Duration ttl) throws InterruptedException {
                for (Optional<SimpleLock> lock = Optional.empty(); lock.isEmpty();) {
                    Thread.sleep(PAUSE_MS);
                    var now = Instant.now();
                    lock = provider.lock(new LockConfiguration(now, name[2], ttl, Duration.ZERO));
                    lock.ifPresent(granted -> held = granted);
                }
            }

            @Override
            public boolean release() {
                held.unlock();
                return true;
            }
        };
    }

    private static Lock registry(RedisConnectionFactory factory, String name) {
        int last = name.lastIndexOf(':');
        var registry = new RedisLockRegistry(factory, name.substring(0, last));
        DistributedLock lock = registry.obtain(name.substring(last + 1));
        return new Lock() {
            @Override
            public void acquire(Duration ttl) {
                lock.lock(ttl);
            }

            @Override
            public boolean release() {
                try {
                    lock.unlock();
                    return true;
                } catch (ConcurrentModificationException expired) {
                    return false;
                }
            }
        };
    }

    private static void add(Jedis data, String counter) {
        long inside = data.incr(counter + ":inside");
        if (inside != 1) {
            throw new AssertionError(inside + " hold the lock");
        }
        var before = data.get(counter);
        data.set(counter, "" + (before == null ? 1 : Long.parseLong(before) + 1));
        data.decr(counter + ":inside");
    }

    private static void say(String word) {
        System.out.println("@@ " + word);
        System.out.flush();
    }
}
