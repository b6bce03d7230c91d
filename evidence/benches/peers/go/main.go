// Locks of Go, to compare with leasehold: rueidislock, redsync and bsm/redislock.
//
// Arguments and output: ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const ttl = 30 * time.Second

// lock takes a name, waits for it if needed, and returns a function that releases it.
type lock func(name string) (release func() error, err error)

func connect(kind, address string, tasks int) (lock, error) {
	ctx := context.Background()
	switch kind {
	case "rueidislock":
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
			KeyMajority:    1,
			NoLoopTracking: true,
		})
		return func(name string) (func() error, error) {
			_, cancel, err := locker.WithContext(ctx, name)
			return func() error { cancel(); return nil }, err
		}, err
	case "redsync":
		client := redis.NewClient(&redis.Options{Addr: address, PoolSize: tasks + 1})
		sync := redsync.New(goredis.NewPool(client))
		return func(name string) (func() error, error) {
			mutex := sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30),
				redsync.WithRetryDelay(5*time.Millisecond))
			release := func() error { _, err := mutex.Unlock(); return err }
			return release, mutex.Lock()
		}, nil
	case "redislock":
		client := redislock.New(redis.NewClient(&redis.Options{Addr: address, PoolSize: tasks + 1}))
		options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)}
		return func(name string) (func() error, error) {
			within, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			held, err := client.Obtain(within, name, ttl, options)
			return func() error { return held.Release(ctx) }, err
		}, nil
	}
	return nil, fmt.Errorf("no lock %q", kind)
}

func run() error {
	kind, address, mode, prefix := os.Args[1], "127.0.0.1:"+os.Args[2], os.Args[3], os.Args[6]
	tasks, err := strconv.Atoi(os.Args[4])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(os.Args[5], 64)
	if err != nil {
		return err
	}
	acquire, err := connect(kind, address, tasks)
	if err != nil {
		return err
	}
	release, err := acquire(prefix + "-warm")
	if err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}

	entries := make([]int, tasks)
	waits := make(map[int]int)
	var longest float64
	var both sync.Mutex
	var workers sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for task := range tasks {
		name := prefix
		if mode != "hot" {
			name = fmt.Sprintf("%s-%d", prefix, task)
		}
		workers.Go(func() {
			own := make(map[int]int)
			var ownLongest float64
			for time.Now().Before(end) {
				asked := time.Now()
				release, err := acquire(name)
				if err != nil {
					log.Fatal(err)
				}
				waited := float64(time.Since(asked).Nanoseconds()) / 1000
				own[int(math.Log(max(waited, 1))/math.Log(1.05))]++
				ownLongest = max(ownLongest, waited)
				entries[task]++
				if err := release(); err != nil {
					log.Fatal(err)
				}
			}
			both.Lock()
			defer both.Unlock()
			for bucket, count := range own {
				waits[bucket] += count
			}
			longest = max(longest, ownLongest)
		})
	}
	workers.Wait()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"entries": entries, "waits": waits, "longest_us": longest, "rss_kib": usage.Maxrss,
	})
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
