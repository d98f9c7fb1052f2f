using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Sends requests. Games and tests may bring their own.</summary>
    public interface ITransport
    {
        /// <summary>
        /// Send a request once and return its answer, whatever its status. Follow no redirect, keep no cookie.
        /// </summary>
        /// <exception cref="NoAnswerException">No whole answer came in time.</exception>
        /// <exception cref="System.OperationCanceledException">The caller gave up.</exception>
        Task<WireAnswer> Send(WireRequest request, CancellationToken cancel);
    }
}
