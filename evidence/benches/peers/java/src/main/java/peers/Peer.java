package peers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Locks of Redisson, to compare with leasehold: RLock, RFairLock and RFencedLock.
 *
 * <p>Arguments and output: ../README.md.
 */
public final class Peer {
    /** How long the virtual machine compiles before it is measured. */
    private static final long WARM_MS = 7_000;

    private final RedissonClient client;
    private final String kind;

    private Peer(RedissonClient client, String kind) {
        this.client = client;
        this.kind = kind;
    }

    private RLock lock(String name) {
        return switch (kind) {
            case "RLock" -> client.getLock(name);
            case "RFairLock" -> client.getFairLock(name);
            case "RFencedLock" -> client.getFencedLock(name);
            default -> throw new IllegalArgumentException("no lock " + kind);
        };
    }

    /** The results of one task. */
    private static final class Seen {
        long entries;
        long longestNs;
        final Map<Integer, Long> waits = new TreeMap<>();
    }

    private Seen work(String name, long endNs) {
        RLock lock = lock(name);
        Seen seen = new Seen();
        while (System.nanoTime() < endNs) {
            long asked = System.nanoTime();
            lock.lock();
            long waited = System.nanoTime() - asked;
            int bucket = (int) (Math.log(Math.max(waited / 1000.0, 1.0)) / Math.log(1.05));
            seen.waits.merge(bucket, 1L, Long::sum);
            seen.longestNs = Math.max(seen.longestNs, waited);
            seen.entries++;
            lock.unlock();
        }
        return seen;
    }

    /** Runs all tasks for this time, each in a separate thread. */
    private List<Seen> run(List<String> names, long forMs) throws InterruptedException {
        CountDownLatch begin = new CountDownLatch(1);
        long[] endNs = new long[1];
        Seen[] seen = new Seen[names.size()];
        List<Thread> threads = new ArrayList<>();
        for (int task = 0; task < seen.length; task++) {
            int own = task;
            Thread thread = new Thread(() -> {
                try {
                    begin.await();
                } catch (InterruptedException interrupted) {
                    return;
                }
                seen[own] = work(names.get(own), endNs[0]);
            });
            thread.start();
            threads.add(thread);
        }
        endNs[0] = System.nanoTime() + forMs * 1_000_000;
        begin.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        return Arrays.asList(seen);
    }

    private static List<String> names(String prefix, String mode, int tasks) {
        List<String> names = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            names.add(mode.equals("hot") ? prefix : prefix + "-" + task);
        }
        return names;
    }

    /** The most memory that this process ever had, as the kernel reports it. */
    private static long peakKib() throws java.io.IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                .findFirst().orElse(0);
    }

    public static void main(String[] args) throws Exception {
        int tasks = Integer.parseInt(args[3]);
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[1]);
        RedissonClient client = Redisson.create(config);
        Peer peer = new Peer(client, args[0]);
        // A separate name for each process: otherwise their warm-ups would wait for each other.
        String warm = args[5] + "-warm-" + ProcessHandle.current().pid();
        peer.run(names(warm, args[2], tasks), WARM_MS);
        System.out.println("ready");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        List<Seen> all = peer.run(names(args[5], args[2], tasks),
                (long) (Double.parseDouble(args[4]) * 1000));
        Map<Integer, Long> waits = new TreeMap<>();
        all.forEach(seen -> seen.waits.forEach((at, count) -> waits.merge(at, count, Long::sum)));
        double longest = all.stream().mapToLong(seen -> seen.longestNs).max().orElse(0) / 1000.0;
        System.out.printf("{\"entries\":%s,\"waits\":{%s},\"longest_us\":%.1f,\"rss_kib\":%d}%n",
                all.stream().map(seen -> seen.entries).toList(),
                waits.entrySet().stream()
                        .map(entry -> "\"" + entry.getKey() + "\":" + entry.getValue())
                        .collect(Collectors.joining(",")),
                longest, peakKib());
        System.out.flush();
        client.shutdown();
        System.exit(0);
    }
}
