using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Tells the time and waits. All waiting of the client goes through it.</summary>
    public interface IClock
    {
        /// <summary>The time in Unix seconds, as the device tells it.</summary>
        double NowS { get; }

        /// <summary>Wait for that many seconds.</summary>
        /// <exception cref="System.OperationCanceledException">The caller gave up.</exception>
        Task Wait(double seconds, CancellationToken cancel);
    }
}
