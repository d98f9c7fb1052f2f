using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>What a client uses where its options name nothing.</summary>
    internal static class Defaults
    {
#if UNITY_5_3_OR_NEWER
        internal static ITransport Transport() => new UnityTransport();

        internal static IClock Clock() => new UnityClock();

        internal static string QueueFolder() =>
            System.IO.Path.Combine(UnityEngine.Application.persistentDataPath, "scoregate");
#else
        internal static ITransport Transport() => new HttpClientTransport();

        internal static IClock Clock() => new SystemClock();

        internal static string QueueFolder() => null;
#endif

#if UNITY_WEBGL && !UNITY_EDITOR
        /// <summary>Have the browser keep what was written: files of a WebGL player are in memory until then.</summary>
        internal static Task SyncDisk(IClock clock, CancellationToken cancel) => WebGLDisk.Sync(clock, cancel);
#else
        internal static Task SyncDisk(IClock clock, CancellationToken cancel) => Task.CompletedTask;
#endif
    }
}
