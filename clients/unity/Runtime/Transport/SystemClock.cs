using System;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>The clock of programs outside of Unity. It waits by timers, which a WebGL player does not have.</summary>
    public sealed class SystemClock : IClock
    {
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

        /// <inheritdoc/>
        public double NowS => SecondsSince1970();

        /// <inheritdoc/>
        public Task Wait(double seconds, CancellationToken cancel) =>
            Task.Delay(TimeSpan.FromSeconds(Math.Max(0, seconds)), cancel);

        internal static double SecondsSince1970() => (DateTime.UtcNow - Epoch).TotalSeconds;
    }
}
