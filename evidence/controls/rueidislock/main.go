// A negative control: rueidislock. README.md says how it is called.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"
)

// A place that has gone silent is given up after that, and a wait too.
const (
	timeout  = time.Second
	patience = 2 * time.Second
	rest     = 50 * time.Millisecond
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func number(text string) int64 {
	return must(strconv.ParseInt(text, 10, 64))
}

// options say where the locks are.
func options(place string) rueidis.ClientOption {
	kind, rest, _ := strings.Cut(place, ",")
	words := strings.Split(rest, ",")
	option := rueidis.ClientOption{ConnWriteTimeout: timeout}
	if kind == "sentinel" {
		option.Sentinel = rueidis.SentinelOption{MasterSet: words[0]}
		words = words[1:]
	}
	for _, port := range words {
		option.InitAddress = append(option.InitAddress, "127.0.0.1:"+port)
	}
	return option
}

// now is in nanoseconds of the clock that has counted since the machine was started.
func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

type writer struct {
	file    *os.File
	counted atomic.Int64
}

func (w *writer) fresh() int64 { return w.counted.Add(1) }

func (w *writer) line(format string, words ...any) {
	must(w.file.WriteString(fmt.Sprintf(format+"\n", words...)))
}

type task struct {
	locker  rueidislock.Locker
	values  rueidis.Client
	log     *writer
	choices *rand.Rand
	names   int64
	ttl     time.Duration
}

func (t *task) turn() error {
	name := fmt.Sprintf("campaign/r%d", t.choices.Int63n(t.names))
	within, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	asked := now()
	// What is given is over with the limit of the wait, too.
	held, release, err := t.locker.WithContext(within, name)
	if err != nil {
		return err
	}
	defer release()
	entered, own := now(), t.log.fresh()
	t.log.line("g %s %d %d %d %d %d 1", name, own, asked, entered, own, own)
	value := t.log.fresh()
	t.log.line("r %s %d %d 0", name, value, now())
	get := t.values.B().Get().Key(name).Build()
	old, err := t.values.Do(context.Background(), get).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		panic(err)
	}
	time.Sleep(time.Duration(t.choices.Int63n(int64(10 * time.Millisecond))))
	set := t.values.B().Set().Key(name).Value(strconv.FormatInt(value, 10)).Build()
	if err := t.values.Do(context.Background(), set).Error(); err != nil {
		panic(err)
	}
	t.log.line("d %d %d %d", value, now(), old)
	left := min(now(), asked+min(t.ttl, patience).Nanoseconds())
	if held.Err() == nil && left > entered {
		t.log.line("p %s %d %d %d %d %d 1 1", name, own, own, entered, left, own)
	}
	return nil
}

func connect(place string, ttl time.Duration) rueidislock.Locker {
	for {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: options(place),
			KeyMajority:  1,
			KeyValidity:  ttl,
		})
		if err == nil {
			return locker
		}
		// The place may be in trouble right now.
		time.Sleep(rest)
	}
}

func main() {
	place, protected, path, process := os.Args[1], os.Args[2], os.Args[3], number(os.Args[4])
	seed, tasks, ttlMs, names := number(os.Args[5]), number(os.Args[6]), number(os.Args[7]), number(os.Args[8])
	file := must(os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))
	log := &writer{file: file}
	log.counted.Store(process << 48)
	ttl := time.Duration(ttlMs) * time.Millisecond
	// Every reply is waited for, however long this process was stopped.
	values := must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{"127.0.0.1:" + protected},
		DisableCache:     true,
		ConnWriteTimeout: time.Hour,
	}))
	locker := connect(place, ttl)
	var over atomic.Bool
	var served atomic.Int64
	var all sync.WaitGroup
	for at := range tasks {
		all.Go(func() {
			choices := rand.New(rand.NewSource(seed + at))
			own := &task{locker, values, log, choices, names, ttl}
			for !over.Load() {
				if own.turn() == nil {
					served.Add(1)
				} else {
					time.Sleep(rest)
				}
			}
		})
	}
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	over.Store(true)
	all.Wait()
	fmt.Println("@@ served", served.Load())
}
