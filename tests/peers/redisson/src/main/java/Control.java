import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** A negative control: Redisson's RLock. evidence/controls/README.md says how it is called. */
public final class Control {
    private static final AtomicLong COUNTED = new AtomicLong();
    private static final AtomicLong SERVED = new AtomicLong();
    private static volatile boolean over;
    private static PrintWriter log;
    private static RedissonClient client;
    private static RedissonClient values;
    private static long ttl;
    private static int names;

    public static void main(String[] args) throws Exception {
        COUNTED.set(Long.parseLong(args[3]) << 48);
        log = new PrintWriter(new FileWriter(args[2], true), true);
        ttl = Long.parseLong(args[6]);
        names = Integer.parseInt(args[7]);
        client = Redisson.create(config(args[0].split(",")));
        values = Redisson.create(config(new String[] {"one", args[1]}));
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

    private static Config config(String[] place) {
        var config = new Config();
        config.setNettyThreads(4).setThreads(8);
        if (place[0].equals("one")) {
            config.useSingleServer().setAddress("redis://127.0.0.1:" + place[1])
                .setTimeout(1000).setConnectTimeout(1000).setRetryAttempts(1)
                .setConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
            return config;
        }
        var sentinels = config.useSentinelServers().setMasterName(place[1])
            .setCheckSentinelsList(false).setScanInterval(500)
            .setTimeout(1000).setConnectTimeout(1000).setRetryAttempts(1)
            .setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1);
        for (int at = 2; at < place.length; at++) {
            sentinels.addSentinelAddress("redis://127.0.0.1:" + place[at]);
        }
        return config;
    }

    private static void work(Random random) {
        while (!over) {
            try {
                turn(random);
            } catch (InterruptedException | RuntimeException error) {
                pause(50);
            }
        }
    }

    private static void turn(Random random) throws InterruptedException {
        String name = "campaign/r" + random.nextInt(names);
        RLock lock = client.getLock(name);
        // The clock that has counted since the machine was started, in nanoseconds.
        long asked = System.nanoTime();
        if (!lock.tryLock(2000, ttl, TimeUnit.MILLISECONDS)) {
            return;
        }
        long entered = System.nanoTime();
        long own = COUNTED.incrementAndGet();
        write("g", name, own, asked, entered, own, own, 1);
        long value = COUNTED.incrementAndGet();
        write("r", name, value, System.nanoTime(), 0);
        RBucket<String> bucket = values.getBucket(name, StringCodec.INSTANCE);
        String old = bucket.get();
        pause(random.nextInt(10));
        bucket.set(Long.toString(value));
        write("d", value, System.nanoTime(), old == null ? "0" : old);
        long left = Math.min(System.nanoTime(), asked + ttl * 1_000_000);
        if (left > entered) {
            write("p", name, own, own, entered, left, own, 1, 1);
        }
        SERVED.incrementAndGet();
        lock.unlock();
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
