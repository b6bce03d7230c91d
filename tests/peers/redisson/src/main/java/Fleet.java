import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.client.RedisConnectionException;
import org.redisson.config.Config;

/**
 * A member of the campaign's fleet, with RFencedLocks: evidence/campaign/peers/README.md says how it is
 * called.
 */
public final class Fleet {
    /** As in evidence/campaign/src/register.rs, with answers that are texts. */
    private static final String READ = """
        local token = redis.call('HGET', KEYS[1], 'token')
        if token and token > ARGV[1] then return nil end
        redis.call('HSET', KEYS[1], 'token', ARGV[1])
        return redis.call('HGET', KEYS[1], 'value') or '0'""";
    private static final String WRITE = """
        if redis.call('HGET', KEYS[1], 'token') > ARGV[1] then return '0' end
        redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
        return '1'""";

    private static final AtomicLong COUNTED = new AtomicLong();
    private static final AtomicLong SERVED = new AtomicLong();
    private static volatile boolean over;
    private static PrintWriter log;
    private static RedissonClient client;
    private static RedissonClient values;
    private static String weight;
    private static long ttl;
    private static int names;

    public static void main(String[] args) throws Exception {
        COUNTED.set(Long.parseLong(args[3]) << 48);
        log = new PrintWriter(new FileWriter(args[2], true), true);
        ttl = Long.parseLong(args[6]);
        names = Integer.parseInt(args[7]);
        weight = args[8];
        client = connected(config(URI.create(args[0]).getPort()));
        values = connected(config(Integer.parseInt(args[1])));
        var threads = new ArrayList<Thread>();
        for (int task = 0; task < Integer.parseInt(args[5]); task++) {
            var random = new Random(Long.parseLong(args[4]) + task);
            threads.add(new Thread(() -> work(random)));
        }
        threads.forEach(Thread::start);
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("@@ served " + SERVED.get());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Connects within a minute: the server may be stopped or cut off right now. */
    private static RedissonClient connected(Config config) throws InterruptedException {
        for (int attempt = 1;; attempt++) {
            try {
                return Redisson.create(config);
            } catch (RedisConnectionException failure) {
                if (attempt == 60) {
                    throw failure;
                }
                Thread.sleep(1000);
            }
        }
    }

    private static Config config(int port) {
        var config = new Config();
        config.setNettyThreads(4).setThreads(8).useSingleServer()
            .setAddress("redis://127.0.0.1:" + port)
            .setTimeout(1000).setConnectTimeout(1000).setRetryAttempts(1)
            .setConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
        return config;
    }

    private static void work(Random random) {
        while (!over) {
            // Redisson asks again after a lost reply, so a thread may hold what it does not know of. It
            // would enter that again, with the token of before. So each turn is another thread's.
            var thread = new Thread(() -> {
                try {
                    turn(random);
                } catch (InterruptedException | RuntimeException error) {
                    pause(50);
                }
            });
            thread.start();
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }

    private static void turn(Random random) throws InterruptedException {
        String name = "campaign/r" + random.nextInt(names);
        RFencedLock lock = client.getFencedLock(name);
        // The clock that has counted since the machine was started, in nanoseconds.
        long asked = System.nanoTime();
        Long token = lock.tryLockAndGetToken(2000, ttl, TimeUnit.MILLISECONDS);
        if (token == null) {
            return;
        }
        long entered = System.nanoTime();
        long own = COUNTED.incrementAndGet();
        write("g", name, own, asked, entered, token, own, 1);
        update(name, random, token);
        long left = Math.min(System.nanoTime(), asked + ttl * 1_000_000);
        if (left > entered) {
            write("p", name, own, own, entered, left, token, weight, weight);
        }
        write("e redisson");
        SERVED.incrementAndGet();
        lock.unlock();
    }

    private static void update(String name, Random random, long token) {
        long value = COUNTED.incrementAndGet();
        write("r", name, value, System.nanoTime(), token);
        String old = fenced(READ, name, token, 0);
        pause(random.nextInt(10));
        if (old == null || !fenced(WRITE, name, token, value).equals("1")) {
            write("n", value);
            return;
        }
        write("d", value, System.nanoTime(), old);
    }

    private static String fenced(String script, String name, long token, long value) {
        Object told = values.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_WRITE, script,
            RScript.ReturnType.VALUE, List.of(name), String.format("%020d", token), "" + value);
        return told == null ? null : told.toString();
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static synchronized void write(Object... words) {
        var line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(word);
        }
        log.write(line.append('\n').toString());
        log.flush();
    }
}
