// Gives a process another wall clock than the machine's: LD_PRELOAD it. The first eight bytes of the file CLOCK_OFFSET are the
// seconds by which it differs; whoever writes them has the clock jump. Elapsed time (CLOCK_MONOTONIC) stays the machine's.
// Where a wait has its deadline on the wall clock, the deadline is moved to the machine's, as the kernel would count it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// A deadline that is later is on the wall clock: no machine runs for thirty years.
#define THIRTY_YEARS 1000000000

static const volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_OFFSET");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (found == MAP_FAILED) abort();
  offset = found;
  close(file);
}

static int64_t ahead(void) { return offset ? *offset : 0; }

static const struct timespec *on_the_machine(const struct timespec *deadline, struct timespec *moved) {
  if (!deadline || deadline->tv_sec < THIRTY_YEARS) return deadline;
  *moved = *deadline;
  moved->tv_sec -= ahead();
  return moved;
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

int clock_gettime(clockid_t clock, struct timespec *now) {
  static long (*ask)(long, ...);
  if (!ask) ask = next("syscall");
  int failed = (int)ask(SYS_clock_gettime, clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec found;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &found);
  if (!failed) *now = (struct timeval){found.tv_sec, found.tv_nsec / 1000};
  return failed;
}

time_t time(time_t *now) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (now) *now = found.tv_sec;
  return found.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  struct timespec moved;
  if (!wait) wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!wait) wait = next("pthread_cond_timedwait");
  return wait(condition, mutex, on_the_machine(deadline, &moved));
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
  struct timespec moved;
  if (!wait) wait = next("pthread_cond_clockwait");
  return wait(condition, mutex, clock, on_the_machine(deadline, &moved));
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *deadline) {
  static int (*wait)(pthread_mutex_t *, const struct timespec *);
  struct timespec moved;
  if (!wait) wait = next("pthread_mutex_timedlock");
  return wait(mutex, on_the_machine(deadline, &moved));
}

int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
  static int (*wait)(sem_t *, const struct timespec *);
  struct timespec moved;
  if (!wait) wait = next("sem_timedwait");
  return wait(semaphore, on_the_machine(deadline, &moved));
}

// Abseil, of which gRPC is made, waits by the system call itself.
long syscall(long number, ...) {
  static long (*call)(long, ...);
  struct timespec moved;
  long given[6];
  va_list rest;
  va_start(rest, number);
  for (int one = 0; one < 6; one++) given[one] = va_arg(rest, long);
  va_end(rest);
  if (!call) call = next("syscall");
  if (number == SYS_futex && (given[1] & FUTEX_CLOCK_REALTIME))
    given[3] = (long)on_the_machine((const struct timespec *)given[3], &moved);
  return call(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
