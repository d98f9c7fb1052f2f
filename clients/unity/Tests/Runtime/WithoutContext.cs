using System.Threading;
using NUnit.Framework;

namespace Scoregate.Tests
{
    /// <summary>Has what awaits go on at once, instead of in Unity's next frame.</summary>
    public abstract class WithoutContext
    {
        private SynchronizationContext before;

        [SetUp]
        public void LeaveContext()
        {
            before = SynchronizationContext.Current;
            SynchronizationContext.SetSynchronizationContext(null);
        }

        [TearDown]
        public void ReturnToContext() => SynchronizationContext.SetSynchronizationContext(before);
    }
}
