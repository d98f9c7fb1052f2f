#if UNITY_WEBGL && !UNITY_EDITOR
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Has a browser write the files of a WebGL player, which are in memory until then, to its IndexedDB.</summary>
    internal static class WebGLDisk
    {
        private const double LookAgainS = 0.02;
        private const int Failed = -1;

        /// <summary>Return once the browser has what was written so far.</summary>
        /// <exception cref="ScoregateError">With the reason queue-unwritable.</exception>
        internal static async Task Sync(IClock clock, CancellationToken cancel)
        {
            var wanted = ScoregateDiskWant();
            int done;
            while ((done = ScoregateDiskDone(wanted)) == 0)
            {
                await clock.Wait(LookAgainS, cancel);
            }

            if (done == Failed)
            {
                throw ScoregateError.Own("queue-unwritable", "The browser stores nothing for this page.");
            }
        }

        [DllImport("__Internal")]
        private static extern int ScoregateDiskWant();

        [DllImport("__Internal")]
        private static extern int ScoregateDiskDone(int wanted);
    }
}
#endif
