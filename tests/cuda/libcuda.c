/* A libcuda without a card. The real cuda-bindings load it, so tests see every call with its real types.
 *
 * It checks handles and contexts as the driver does, moves memory, and launches nothing. The environment says what it stands for:
 *   STUB_CUDA   the version that cuDriverGetVersion gives (13000); functions of later versions are not found
 *   STUB_CARDS  how many cards there are (1)
 *   STUB_ABI    the newest ABI of machine code that it takes (8)
 *   STUB_FAIL   the name of a function that fails with CUDA_ERROR_ILLEGAL_ADDRESS
 * stub_calls(name) tells how often a function was called.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
       NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900 };
typedef struct Thing { int kind; struct Thing *context; double time; } Thing;
enum { CONTEXT = 11, STREAM, EVENT, MODULE, FUNCTION, GRAPH, EXEC, POOL };
typedef uint64_t Address;

static Thing contexts[8] = {{CONTEXT}, {CONTEXT}, {CONTEXT}, {CONTEXT}, {CONTEXT}, {CONTEXT}, {CONTEXT}, {CONTEXT}};
static _Thread_local Thing *current;
static int capturing;
static struct { const char *name; int count; } calls[80];

static int number(const char *name, int otherwise) { const char *found = getenv(name); return found ? atoi(found) : otherwise; }
static Thing *make(int kind) { Thing *t = calloc(1, sizeof *t); t->kind = kind; t->context = current; return t; }
static int is(const Thing *t, int kind) { return t && t->kind == kind; }

static int called(const char *name) {
    int k = 0;
    while (calls[k].name && strcmp(calls[k].name, name)) k++;
    calls[k].name = name;
    calls[k].count++;
    const char *fails = getenv("STUB_FAIL");
    return fails && !strcmp(fails, name) ? ILLEGAL_ADDRESS : SUCCESS;
}

int stub_calls(const char *name) {
    for (int k = 0; calls[k].name; k++)
        if (!strcmp(calls[k].name, name)) return calls[k].count;
    return 0;
}

#define BEGIN do { int failed = called(__func__); if (failed) return failed; } while (0)
#define NEED(what, error) do { if (!(what)) return error; } while (0)
#define OWN(stream) do { NEED(is(stream, STREAM), INVALID_HANDLE); NEED((stream)->context == current, INVALID_CONTEXT); } while (0)

int cuInit(unsigned flags) { BEGIN; return SUCCESS; }
int cuDriverGetVersion(int *version) { BEGIN; *version = number("STUB_CUDA", 13000); return SUCCESS; }
int cuDeviceGetCount(int *count) { BEGIN; *count = number("STUB_CARDS", 1); return SUCCESS; }
int cuDeviceGet(int *card, int k) { BEGIN; NEED(k < number("STUB_CARDS", 1), 101); *card = k; return SUCCESS; }
int cuDeviceGetName(char *name, int size, int card) { BEGIN; strncpy(name, "No card at all", size); return SUCCESS; }
int cuDeviceGetPCIBusId(char *text, int size, int card) { BEGIN; snprintf(text, size, "0000:%02x:00.0", card); return SUCCESS; }
int cuDeviceTotalMem_v2(size_t *bytes, int card) { BEGIN; *bytes = (size_t)80 << 30; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int which, int card) { BEGIN; *value = which == 75 ? 9 : 0; return SUCCESS; }
int cuDevicePrimaryCtxRetain(Thing **context, int card) { BEGIN; *context = &contexts[card]; return SUCCESS; }
int cuCtxSetCurrent(Thing *context) { BEGIN; NEED(is(context, CONTEXT), INVALID_CONTEXT); current = context; return SUCCESS; }
int cuCtxSynchronize(void) { BEGIN; NEED(current, INVALID_CONTEXT); return SUCCESS; }
int cuGetErrorString(int error, const char **text) {
    BEGIN;
    *text = error == INVALID_IMAGE ? "device kernel image is invalid"
        : error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
        : error == INVALID_CONTEXT ? "invalid device context" : "an error";
    return SUCCESS;
}
int cuGetErrorName(int error, const char **text) { BEGIN; *text = "ERROR"; return SUCCESS; }

int cuStreamCreate(Thing **stream, unsigned flags) { BEGIN; NEED(current, INVALID_CONTEXT); *stream = make(STREAM); return SUCCESS; }
int cuStreamSynchronize(Thing *stream) { BEGIN; NEED(is(stream, STREAM) && !capturing, INVALID_HANDLE); return SUCCESS; }
int cuStreamWaitEvent(Thing *stream, Thing *event, unsigned flags) { BEGIN; NEED(is(event, EVENT), INVALID_HANDLE); return SUCCESS; }
int cuStreamBeginCapture_v2(Thing *stream, int mode) { BEGIN; OWN(stream); capturing = 1; return SUCCESS; }
int cuStreamEndCapture(Thing *stream, Thing **graph) { BEGIN; OWN(stream); capturing = 0; *graph = make(GRAPH); return SUCCESS; }
int cuGraphInstantiateWithFlags(Thing **exec, Thing *graph, unsigned long long flags) {
    BEGIN; NEED(is(graph, GRAPH), INVALID_HANDLE); *exec = make(EXEC); return SUCCESS;
}
int cuGraphDestroy(Thing *graph) { BEGIN; NEED(is(graph, GRAPH), INVALID_HANDLE); free(graph); return SUCCESS; }
int cuGraphLaunch(Thing *exec, Thing *stream) { BEGIN; NEED(is(exec, EXEC), INVALID_HANDLE); OWN(stream); return SUCCESS; }
int cuGraphExecDestroy(Thing *exec) { BEGIN; NEED(is(exec, EXEC), INVALID_HANDLE); exec->kind = 0; free(exec); return SUCCESS; }

int cuDeviceGetDefaultMemPool(Thing **pool, int card) { BEGIN; *pool = make(POOL); return SUCCESS; }
int cuMemPoolSetAttribute(Thing *pool, int which, void *value) { BEGIN; NEED(is(pool, POOL), INVALID_HANDLE); return SUCCESS; }
int cuMemPoolTrimTo(Thing *pool, size_t keep) { BEGIN; NEED(is(pool, POOL), INVALID_HANDLE); return SUCCESS; }
int cuMemAllocAsync(Address *address, size_t bytes, Thing *stream) {
    BEGIN; OWN(stream); NEED(!capturing, CAPTURE_UNSUPPORTED); NEED(bytes, INVALID_VALUE);
    if (bytes > (size_t)4 << 30) return OUT_OF_MEMORY;
    *address = (Address)aligned_alloc(512, (bytes + 511) / 512 * 512);
    return SUCCESS;
}
int cuMemFreeAsync(Address address, Thing *stream) { BEGIN; OWN(stream); free((void *)address); return SUCCESS; }
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    BEGIN; NEED(current, INVALID_CONTEXT); *left = (size_t)79 << 30; *total = (size_t)80 << 30; return SUCCESS;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    BEGIN; NEED(current && !capturing, INVALID_CONTEXT); *address = aligned_alloc(512, (bytes + 511) / 512 * 512); return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t n, Thing *stream) {
    BEGIN; OWN(stream); memmove((void *)to, from, n); return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t n, Thing *stream) {
    BEGIN; OWN(stream); memmove(to, (void *)from, n); return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, Thing *stream) {
    BEGIN; OWN(stream); memmove((void *)to, (void *)from, n); return SUCCESS;
}
int cuMemsetD8Async(Address to, unsigned char value, size_t n, Thing *stream) {
    BEGIN; OWN(stream); memset((void *)to, value, n); return SUCCESS;
}
int cuPointerGetAttribute(void *value, int which, Address address) { BEGIN; *(int *)value = 0; return SUCCESS; }

int cuModuleLoadData(Thing **module, const void *image) {
    const unsigned char *elf = image;
    BEGIN; NEED(current, INVALID_CONTEXT); NEED(!capturing, CAPTURE_UNSUPPORTED);
    if (memcmp(elf, "\177ELF", 4) || elf[8] > number("STUB_ABI", 8)) return INVALID_IMAGE;
    *module = make(MODULE);
    return SUCCESS;
}
int cuModuleUnload(Thing *module) {
    BEGIN; NEED(is(module, MODULE) && module->context == current, INVALID_HANDLE); NEED(!capturing, CAPTURE_UNSUPPORTED);
    module->kind = 0; free(module); return SUCCESS;
}
int cuModuleGetFunction(Thing **function, Thing *module, const char *name) {
    BEGIN; NEED(is(module, MODULE), INVALID_HANDLE); *function = make(FUNCTION); return SUCCESS;
}
int cuFuncSetAttribute(Thing *function, int which, int value) {
    BEGIN; NEED(is(function, FUNCTION) && (which == 8 || which == 9), INVALID_VALUE);
    NEED(value >= 0 && value <= (which == 8 ? 232448 : 100), INVALID_VALUE);
    return SUCCESS;
}
int cuLaunchKernel(Thing *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   Thing *stream, void **parameters, void **extra) {
    BEGIN; NEED(is(function, FUNCTION), INVALID_HANDLE); OWN(stream); NEED(function->context == current, INVALID_HANDLE);
    NEED(x && y && z && y < 65536 && bx <= 1024 && shared <= 232448 && parameters, INVALID_VALUE);
    return SUCCESS;
}

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec; }
int cuEventCreate(Thing **event, unsigned flags) { BEGIN; NEED(current, INVALID_CONTEXT); *event = make(EVENT); return SUCCESS; }
int cuEventRecord(Thing *event, Thing *stream) {
    BEGIN; NEED(is(event, EVENT), INVALID_HANDLE); OWN(stream); NEED(event->context == current, INVALID_HANDLE);
    event->time = now(); return SUCCESS;
}
int cuEventQuery(Thing *event) { BEGIN; NEED(is(event, EVENT), INVALID_HANDLE); return SUCCESS; }
int cuEventSynchronize(Thing *event) { BEGIN; NEED(is(event, EVENT), INVALID_HANDLE); return SUCCESS; }
int cuEventDestroy_v2(Thing *event) { BEGIN; NEED(is(event, EVENT), INVALID_HANDLE); event->kind = 0; free(event); return SUCCESS; }
int cuEventElapsedTime(float *milliseconds, Thing *first, Thing *second) {
    BEGIN; NEED(is(first, EVENT) && is(second, EVENT), INVALID_HANDLE); *milliseconds = second->time - first->time; return SUCCESS;
}
int cuEventElapsedTime_v2(float *milliseconds, Thing *first, Thing *second) {
    BEGIN; NEED(is(first, EVENT) && is(second, EVENT), INVALID_HANDLE); *milliseconds = second->time - first->time; return SUCCESS;
}

/* How cuda-bindings ask for functions: by name, and the version in which it had the form that they know. */
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const struct { const char *name; int since; void *function; } table[] = {
#define F(name) {#name, 0, (void *)name}
#define V(name, suffix, since) {#name, since, (void *)name##suffix}
        V(cuEventElapsedTime, _v2, 12080), F(cuEventElapsedTime), V(cuCtxSynchronize, , 0),
        F(cuInit), F(cuDriverGetVersion), F(cuDeviceGetCount), F(cuDeviceGet), F(cuDeviceGetName), V(cuDeviceTotalMem, _v2, 3020),
        F(cuDeviceGetPCIBusId), F(cuDeviceGetAttribute), F(cuDevicePrimaryCtxRetain), F(cuCtxSetCurrent), F(cuGetErrorString), F(cuGetErrorName),
        F(cuStreamCreate), F(cuStreamSynchronize), F(cuStreamWaitEvent), V(cuStreamBeginCapture, _v2, 10010),
        F(cuStreamEndCapture), F(cuGraphInstantiateWithFlags), F(cuGraphDestroy), F(cuGraphLaunch), F(cuGraphExecDestroy),
        F(cuDeviceGetDefaultMemPool), F(cuMemPoolSetAttribute), F(cuMemPoolTrimTo), F(cuMemAllocAsync), F(cuMemFreeAsync),
        V(cuMemGetInfo, _v2, 3020), F(cuMemHostAlloc), V(cuMemcpyHtoDAsync, _v2, 3020), V(cuMemcpyDtoHAsync, _v2, 3020),
        V(cuMemcpyDtoDAsync, _v2, 3020), F(cuMemsetD8Async), F(cuPointerGetAttribute), F(cuModuleLoadData), F(cuModuleUnload),
        F(cuModuleGetFunction), F(cuFuncSetAttribute), F(cuLaunchKernel), F(cuEventCreate), F(cuEventRecord), F(cuEventQuery),
        F(cuEventSynchronize), V(cuEventDestroy, _v2, 4000),
    };
    *function = NULL;
    for (unsigned k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name) && version >= table[k].since && version <= number("STUB_CUDA", 13000)) {
            *function = table[k].function;
            break;
        }
    if (status) *status = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}
